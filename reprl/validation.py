"""Periodic evaluation during training: a few full games on the validation variants.

They are played in their own emulators with their own streams, so a run with it and a run without it
train the same agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from reprl.config import Config
from reprl.seeding import stream_seed

if TYPE_CHECKING:
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

FRAME_LIMIT = 27_000  # a game that goes on longer is scored as it stands
COLUMNS = ["variant", "severity", "episode", "eval_seed", "episode_return", "length", "end"]


class Stopped(Exception):
    """A signal came between two games."""


def validate(
    model: OnPolicyAlgorithm, config: Config, stopped: Callable[[], bool] = lambda: False
) -> list[dict[str, Any]] | None:
    """Play `eval.episodes` games a variant with sampled actions; None if stopped before the end."""
    from reprl.evaluation import evaluate

    def ask(_: Any) -> None:
        if stopped():
            raise Stopped

    try:
        games = evaluate(
            model,
            config.eval.variants,
            config.eval.episodes,
            stream_seed(config.seed, "validation"),
            sticky=config.env.sticky,
            n_envs=min(16, len(config.eval.variants) * config.eval.episodes),
            frame_limit=min(config.env.max_frames, FRAME_LIMIT),
            progress=ask,
        )
    except Stopped:
        return None
    rows = games[COLUMNS].to_dict("records")
    return [{"step": model.num_timesteps} | {str(k): v for k, v in row.items()} for row in rows]


def score(games: list[dict[str, Any]]) -> float:
    """Mean over variants of the mean return: what the best checkpoint is chosen by."""
    return float(np.mean(list(by_variant(games).values())))


def by_variant(games: list[dict[str, Any]]) -> dict[str, float]:
    """Mean return a variant."""
    found: dict[str, list[float]] = {}
    for game in games:
        severity = game["severity"]
        plain = severity is None or severity != severity
        name = str(game["variant"]) if plain else f"{game['variant']}@{severity:g}"
        found.setdefault(name, []).append(float(game["episode_return"]))
    return {variant: float(np.mean(returns)) for variant, returns in found.items()}
