"""A glimpse of an agent in training: a few seconds of play and where it looks in them.

validation -> **glimpse** -> loggers. Played in environments and with streams of its own: a run with
it is, bit for bit, the run without.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from reprl.analysis.attention.heat import heat
from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.pictures import contact_sheet
from reprl.analysis.attention.record import Recording, collect
from reprl.analysis.attention.views import MaskView, even_maps, make_view, pixel_maps
from reprl.envs.machine import FPS
from reprl.envs.protocol import VariantSpec
from reprl.evaluation.evaluate import env_settings
from reprl.rng import isolated
from reprl.runs.media import LoggedFilm, LoggedHistogram, LoggedPicture, Medium


def glimpse(
    model: Any, variants: Iterable[VariantSpec], *, steps: int, seed: int
) -> dict[str, Medium]:
    """`video/`, `attention/` and, of a mask, `mask/values/` of each variant."""
    found: dict[str, Medium] = {}
    with isolated():
        settings = env_settings(model)
        network = network_of(model, str(settings.get("game", "")))
        for variant in variants:
            view = make_view(network, None)
            recording = collect(view, variant, steps=steps, seed=seed, n_envs=1, settings=settings)
            name = recording.variant
            found[f"video/{name}"] = LoggedFilm(heated(recording), FPS / view.every)
            title = f"{view.words} on {name} at step {model.num_timesteps:,}"
            found[f"attention/{name}"] = LoggedPicture(contact_sheet(recording, title, count=2))
            if isinstance(view, MaskView):
                values = recording.cells.flatten().cpu().numpy()
                found[f"mask/values/{name}"] = LoggedHistogram(values)
    return found


def heated(recording: Recording) -> np.ndarray:
    """Each filmed frame beside itself under the heat of its map, (M, H, 2 W, 3)."""
    view, raw = recording.view, recording.frames.shape[1:3]
    cells = recording.cells[recording.film]
    ratios = pixel_maps(view, cells, raw) / even_maps(view, cells, raw)
    pairs = zip(recording.frames, ratios, strict=True)
    return np.stack([np.concatenate([frame, heat(frame, r)], axis=1) for frame, r in pairs])
