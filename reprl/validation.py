"""Periodic evaluation during training: a few full games on the validation variants.

It draws from its own named streams and plays in its own emulators, so a run with it and a run
without it train the same agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reprl.config import Config
from reprl.seeding import numpy_stream, stream_seed

if TYPE_CHECKING:
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

FRAME_LIMIT = 27_000  # a game that goes on longer is scored as it stands


def validate(
    model: OnPolicyAlgorithm, config: Config, stopped: Callable[[], bool] = lambda: False
) -> list[dict[str, Any]] | None:
    """Play `eval.episodes` games a variant with sampled actions; None if stopped before the end."""
    from reprl.envs import make_vec_env

    games = [(v, e) for v in config.eval.variants for e in range(config.eval.episodes)]
    seeds = [stream_seed(config.seed, "validation", e) for _, e in games]
    draws = [numpy_stream(config.seed, "validation", "actions", e) for _, e in games]
    e = config.env
    env = make_vec_env(
        [variant for variant, _ in games],
        len(games),
        config.seed,
        training=False,
        game=e.game,
        sticky=e.sticky,
        stack=e.stack,
        gap=e.gap,
        size=e.size,
        noop_max=e.noop_max,
        max_frames=min(e.max_frames, FRAME_LIMIT),
    )
    try:
        for i, seed in enumerate(seeds):
            env.queue(i, seed)
        model.policy.set_training_mode(False)
        observations = env.reset()  # (n, stack, size, size) uint8
        rows: dict[int, dict[str, Any]] = {}
        while len(rows) < len(games):
            if stopped():
                return None
            playing = [i for i in range(len(games)) if i not in rows]
            actions = np.full(len(games), -1)  # -1 leaves a finished game alone
            for i, chances in zip(playing, _chances(model, observations[playing]), strict=True):
                actions[i] = _draw(chances, draws[i].random())
            observations, _, dones, infos = env.step(actions)
            for i in np.flatnonzero(dones):
                if i not in rows:
                    rows[int(i)] = _row(model.num_timesteps, games[i], seeds[i], infos[i])
        return [rows[i] for i in range(len(games))]
    finally:
        env.close()


def score(rows: list[dict[str, Any]]) -> float:
    """Mean over variants of the mean return: what the best checkpoint is chosen by."""
    return float(np.mean(list(by_variant(rows).values())))


def by_variant(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Mean return a variant."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row["variant"], []).append(row["episode_return"])
    return {variant: float(np.mean(returns)) for variant, returns in found.items()}


@torch.no_grad()
def _chances(model: OnPolicyAlgorithm, observations: np.ndarray) -> np.ndarray:
    batch, _ = model.policy.obs_to_tensor(observations)
    distribution = model.policy.get_distribution(batch)  # type: ignore[arg-type]
    return distribution.distribution.probs.double().cpu().numpy()  # (b, n_actions)


def _draw(chances: np.ndarray, at: float) -> int:
    cumulative = np.cumsum(chances)
    return int(min(np.searchsorted(cumulative, at * cumulative[-1], "right"), len(chances) - 1))


def _row(step: int, game: tuple[Any, int], seed: int, info: dict[str, Any]) -> dict[str, Any]:
    limited = bool(info.get("TimeLimit.truncated"))
    return {
        "step": step,
        "variant": str(game[0]),
        "episode": game[1],
        "eval_seed": seed,
        "episode_return": float(info["episode"]["r"]),
        "length": int(info["episode"]["l"]),
        "end": "frame_limit" if limited else "game_over",
    }
