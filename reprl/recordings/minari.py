"""A recording as a Minari dataset: one Minari episode for each episode that was recorded whole.

Needs the extra `minari` (minari and h5py). Observations are single frames (size, size) uint8, one
more than there are actions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from reprl import __version__
from reprl.errors import UserError
from reprl.recordings.storage import RecordedPlay

NAME = re.compile(r"(?:[\w-]+/)*[\w-]+-v\d+")
MISSING = (
    "minari= needs the packages minari and h5py: install them with pip install 'reprl[minari]'."
)


def episodes(recording: RecordedPlay) -> Iterator[dict[str, np.ndarray]]:
    """Each whole episode: observations (L + 1, H, W), actions, rewards (L,), how it ended."""
    arrays = recording.arrays()
    ends = arrays["ends"]
    last = np.cumsum(ends.reshape(-1) > 0).reshape(ends.shape) - 1  # place of its final frame
    for env in range(ends.shape[1]):
        first: int | None = None
        for t in range(len(ends)):
            first = t if arrays["starts"][t, env] else first
            if first is None or not ends[t, env]:
                continue
            rows = slice(first, t + 1)
            final = arrays["finals"][last[t, env]]
            length = t + 1 - first
            terminated, truncated = np.zeros(length, bool), np.zeros(length, bool)
            (terminated if ends[t, env] == 1 else truncated)[-1] = True
            yield {
                "observations": np.concatenate([arrays["frames"][rows, env], final[None]]),
                "actions": arrays["actions"][rows, env],
                "rewards": arrays["rewards"][rows, env],
                "terminations": terminated,
                "truncations": truncated,
            }
            first = None


def export_minari(recording: RecordedPlay, name: str) -> tuple[Path, int]:
    """Write the dataset where Minari keeps its own (MINARI_DATASETS_PATH); place and episodes."""
    if not NAME.fullmatch(name):
        raise UserError(f"minari={name} must be a name with a version: breakout-random-v0.")
    try:
        import h5py  # noqa: F401  # the format that Minari writes
        import minari
        from minari.data_collector import EpisodeBuffer
    except ImportError:
        raise UserError(MISSING) from None
    facts = recording.facts
    picture = spaces.Box(0, 255, (facts.size, facts.size), np.uint8)
    buffers = [
        EpisodeBuffer(
            id=number,
            observations=found["observations"],
            actions=found["actions"],
            rewards=list(found["rewards"]),
            terminations=list(found["terminations"]),
            truncations=list(found["truncations"]),
        )
        for number, found in enumerate(episodes(recording))
    ]
    if not buffers:
        raise UserError(f"{recording.path} holds no whole episode to export: record more frames.")
    if name in minari.list_local_datasets():
        raise UserError(f"minari={name} is there already: choose another name or version.")
    arguments: dict[str, Any] = {
        "dataset_id": name,
        "buffer": buffers,
        "observation_space": picture,
        "action_space": spaces.Discrete(len(facts.action_meanings)),
        "algorithm_name": facts.player,
        "description": (
            f"{facts.game}, {', '.join(facts.variants)}, {facts.player} play, recorded by reprl "
            f"{__version__}; actions {', '.join(facts.action_meanings)}"
        ),
    }
    made = minari.create_dataset_from_buffers(**arguments)
    return Path(str(made.spec.data_path)), len(buffers)
