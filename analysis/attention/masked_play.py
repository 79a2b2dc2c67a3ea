"""Faithfulness on return: whole games played with the attended pixels taken away, or alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from reprl.analysis.attention.faithfulness import pixel_order, replaced
from reprl.analysis.attention.views import Attribution, look, pixel_maps
from reprl.analysis.stats import estimate, mean
from reprl.envs.protocol import VariantSpec
from reprl.envs.vector import make_vec_env
from reprl.evaluation.play_loop import PlayLoop
from reprl.policy import sample_actions
from reprl.rng import numpy_stream

CONDITIONS = ("intact", "attended removed", "random removed", "attended only", "random only")


def masked_returns(
    view: Attribution,
    variant: VariantSpec,
    filling: np.ndarray,
    *,
    share: float = 0.05,
    games: int = 8,
    seed: int = 0,
    max_steps: int = 2000,
    conditions: Sequence[str] = CONDITIONS,
    settings: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Mean score per condition with an interval over games; `share` of the pixels is meant.

    Game i is the same in all conditions, and its actions come from the same stream. A game that
    lasts longer than `max_steps` counts with the points it has.
    """
    rows = []
    for condition in conditions:
        scores = _play(view, variant, filling, condition, share, games, seed, max_steps, settings)
        found = estimate(mean, scores)
        rows.append((condition, share, found.value, found.low, found.high, games))
    names = ["condition", "share", "score", "low", "high", "n_games"]
    return pd.DataFrame(rows, columns=names)


def _play(
    view: Attribution,
    variant: VariantSpec,
    filling: np.ndarray,
    condition: str,
    share: float,
    games: int,
    seed: int,
    max_steps: int,
    settings: Mapping[str, Any] | None,
) -> np.ndarray:
    streams = [numpy_stream(seed, "attention", "masked play", i) for i in range(games)]
    scores, playing = np.zeros(games), np.ones(games, dtype=bool)
    env = make_vec_env(
        variant, n_envs=games, **{**(settings or {}), "training": False, "seed": seed}
    )
    try:
        loop = PlayLoop(env, view.network)
        for step in range(max_steps):
            seen = loop.observations
            if condition != "intact":
                seen = _changed(view, loop, filling, condition, share, seed + step)
            chances = loop.outputs(seen).probs
            actions = sample_actions(chances, np.array([s.random() for s in streams]))
            _, dones, infos = loop.step(np.where(playing, actions, -1))
            scores += [info["raw_reward"] * on for info, on in zip(infos, playing, strict=True)]
            playing &= ~dones
            if not playing.any():
                break
    finally:
        env.close()
    return scores


def _changed(
    view: Attribution, loop: PlayLoop, filling: np.ndarray, condition: str, share: float, seed: int
) -> np.ndarray:
    """The moment's pictures without the attended pixels, or with only those."""
    observations = loop.observations
    name = "random" if condition.startswith("random") else "attention"
    if name == "random":
        maps = np.zeros((len(observations), *view.network.shape[1:]), np.float32)
    else:
        maps = pixel_maps(view, look(view, observations, loop.state), view.network.shape[1:])
    order = pixel_order(maps, name, seed)
    return replaced(observations, order, share, filling, keep=condition.endswith("only"))
