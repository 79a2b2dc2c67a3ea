"""A mask during training: is it on the objects yet?

validation -> **watch** -> metrics. A short recording on each validation variant, scored as a study
scores it, so that a run shows when its mask finds the ball.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.record import Recording, collect
from reprl.analysis.attention.scores import (
    TOLERANCE,
    cell_peaks,
    chance,
    energy,
    pointing,
    relative,
)
from reprl.analysis.attention.views import MaskView, has_mask
from reprl.envs.games import game as game_of
from reprl.envs.protocol import VariantSpec
from reprl.evaluation.evaluate import env_settings
from reprl.schema import MASK_CHANCE, MASK_ENERGY, MASK_POINTING

STEPS = 256  # of all environments together, on each variant


def watch_mask(model: Any, variants: Iterable[VariantSpec], seed: int) -> dict[str, float]:
    """`mask/pointing/<variant>`, `mask/energy/<variant>` and the chance of pointing.

    pointing: the share of looks whose peak lies on an object (half a cell around it counts).
    energy: the share of the mask's mass there, as a multiple of what a uniform mask has there.
    Empty for an agent without a mask and for a game without truth.
    """
    settings = env_settings(model)
    network = network_of(model)
    if not has_mask(network) or not game_of(settings["game"]).has_truth:
        return {}
    found: dict[str, float] = {}
    guesses = []
    for variant in variants:
        view = MaskView(network)
        recording = collect(view, variant, steps=STEPS, seed=seed, settings=settings)
        on, above, guess = on_objects(recording)
        found[f"{MASK_POINTING}{recording.variant}"] = on
        found[f"{MASK_ENERGY}{recording.variant}"] = above
        guesses.append(guess)
    return found | {MASK_CHANCE: float(np.mean(guesses))}


def on_objects(recording: Recording) -> tuple[float, float, float]:
    """Pointing and energy on any boxed object (ball, paddle, ...), and the chance of pointing."""
    assert recording.objects is not None
    masks = recording.masks()
    names = recording.objects[0].boxes
    objects = np.logical_or.reduce([masks[name] for name in names])  # (N, H, W)
    maps, uniform = recording.maps(), recording.uniform()
    size = recording.view.network.shape[1:]
    cells = recording.view.basis(size)
    peaks = None if cells is None else cell_peaks(cells)
    half_a_cell = max(TOLERANCE * size[0] / 84, size[0] / recording.cells.shape[2] / 2)
    even = np.ones(size, np.float32) if uniform is None else uniform
    flat = np.broadcast_to(even, maps.shape)
    here, anywhere = energy(maps, objects, uniform), energy(flat, objects)
    pointed = relative(maps, uniform) if peaks is None else recording.weights()
    hits = pointing(pointed, objects, half_a_cell, peaks)
    guess = chance("pointing", objects, half_a_cell, uniform=uniform, peaks=peaks)
    ratio = np.nanmean(here) / max(float(np.nanmean(anywhere)), 1e-9)
    return float(np.nanmean(hits)), float(ratio), float(np.nanmean(guess))
