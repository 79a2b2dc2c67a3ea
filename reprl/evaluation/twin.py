"""Twin evaluation: one game seen clean and as every variant at the same moments.

The agent plays on the clean picture; at each step its policy, value, features and attention are
compared between the clean picture and each variant's. No noise from returns: differences show
within a few hundred steps. Only variants that leave the game itself alone can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from reprl import tables
from reprl.envs import Variant, make_vec_env
from reprl.envs.defaults import CLEAN, DEFAULT_GAME
from reprl.envs.games import canonical
from reprl.envs.protocol import GameVecEnv, VariantSpec
from reprl.envs.variation import find
from reprl.envs.variation.base import PHYSICS
from reprl.errors import UserError
from reprl.evaluation.checkpoints import Measured
from reprl.evaluation.episodes import FRAME_LIMIT
from reprl.evaluation.evaluate import env_settings
from reprl.evaluation.play_loop import PlayLoop
from reprl.evaluation.players import ModelAgent, Task
from reprl.evaluation.variants import expand, label
from reprl.game_seeds import whose_games
from reprl.policy import Outputs, sample_actions
from reprl.schema import FILES, TWIN, TWIN_MEASURES
from reprl.settings import STEPS

TWIN_COLUMNS = TWIN.columns


def twin_evaluation(
    model: Any,
    variants: VariantSpec | Iterable[VariantSpec],
    steps: int = 400,
    seed: int = 0,
    *,
    games: str = "own",
    deterministic: bool = False,
    sticky: float = 0.0,
    severities: Sequence[float] = (),
    workers: int = 0,
    labels: dict[str, Any] | None = None,
    **settings: Any,
) -> pd.DataFrame:
    """One row per step and variant, over as many games as `steps` agent steps take.

    The games are those `evaluate` plays on the original, of the model's training seed or shared.

    js: Jensen-Shannon divergence of the policies in nats; flip: 1 where the likeliest action
    differs; value_error: |difference| of the values; feature_distance: |a-b| / (|a|+|b|), 0 to 1;
    attention_shift: the share of the mask's mass that lies elsewhere, 0 to 1, NaN without a mask.
    """
    steps = STEPS.checked("steps", steps)
    settings = env_settings(model, settings.get("game")) | settings
    game = str(settings.get("game", DEFAULT_GAME))
    chosen = [v for v in expand(variants, severities, game) if v.effects]
    for variant in chosen:
        if changes_the_game(variant):
            raise UserError(f"{reason(variant)}: leave it out.")
    if not chosen:
        raise UserError(f"twin evaluation needs at least one variant besides {CLEAN}.")
    agent = ModelAgent(model, deterministic=deterministic, labels=labels, game=canonical(game))
    whose = whose_games(games, agent.labels["train_seed"])
    env = make_vec_env(
        [CLEAN, *chosen],
        1 + len(chosen),
        workers=min(workers, 1 + len(chosen)),
        training=False,
        sticky=sticky,
        max_frames=FRAME_LIMIT,
        **settings,
    )
    rows: list[dict[str, Any]] = []
    episode = 0
    try:
        while len(rows) < steps * len(chosen):
            left = steps - len(rows) // len(chosen)
            task = Task(find(CLEAN), episode, int(seed), whose)
            common = {"episode": episode, "eval_seed": int(seed), "sticky": float(sticky)}
            common["game_seed"] = task.game_seed
            rows += [row | common for row in _one_game(agent, env, chosen, task, left)]
            episode += 1
    finally:
        env.close()
    return pd.DataFrame([agent.labels | row for row in rows], columns=list(TWIN_COLUMNS))


def changes_the_game(variant: Variant) -> bool:
    """Whether the variant changes physics, so that there is no common game to look at."""
    return any(family in PHYSICS for family in variant.family.split("+"))


def reason(variant: Variant) -> str:
    """Why a variant has no twin."""
    return (
        f"variant '{label(variant)}' changes the game itself, "
        "so there is no common game to see it in"
    )


def _one_game(
    agent: ModelAgent, env: GameVecEnv, chosen: list[Variant], task: Task, limit: int
) -> list[dict[str, Any]]:
    uniforms = task.uniforms()
    for index in range(env.num_envs):
        env.queue(index, task.game_seed)
    loop = PlayLoop(env, agent.player)
    rows: list[dict[str, Any]] = []
    for step in range(limit):
        _require_same_game(env, chosen)
        outputs = loop.outputs()
        for variant, measured in zip(chosen, compare(outputs), strict=True):
            row: dict[str, Any] = {"variant": label(variant), "family": variant.family}
            row |= {"severity": variant.severity, "deterministic": agent.deterministic}
            rows.append(row | {"step_in_game": step} | measured)
        clean = outputs.probs[:1]
        draw = np.array([uniforms.random()])
        action = clean.argmax(axis=1) if agent.deterministic else sample_actions(clean, draw)
        rewards, dones, _ = loop.step(np.repeat(action, env.num_envs))
        for index, variant in enumerate(chosen, 1):
            if rewards[index] != rewards[0] or dones[index] != dones[0]:
                raise UserError(f"{reason(variant)}: leave it out.")
        if dones[0]:
            break
    return rows


def compare(outputs: Outputs) -> list[dict[str, float]]:
    """The measures of every view but the first against the first."""
    chances, value, features, attention = outputs  # (n, A), (n,), (n, F), (n, K, h, w) or None
    return [
        {
            "js": jensen_shannon(chances[0], chances[i]),
            "flip": int(chances[0].argmax() != chances[i].argmax()),
            "value_error": abs(float(value[i]) - float(value[0])),
            "feature_distance": relative_distance(features[0], features[i]),
            "attention_shift": np.nan
            if attention is None
            else mass_shift(attention[0], attention[i]),
        }
        for i in range(1, len(chances))
    ]


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> float:
    """The Jensen-Shannon divergence of two distributions (A,) in nats: 0 to log 2."""
    middle = (p + q) / 2
    parts = [x[x > 0] * np.log(x[x > 0] / middle[x > 0]) for x in (p, q)]
    return max(0.0, float(sum(part.sum() for part in parts)) / 2)


def relative_distance(a: np.ndarray, b: np.ndarray) -> float:
    """|a-b| / (|a|+|b|): 0 where equal, 1 where opposite or where one is silent."""
    size = float(np.linalg.norm(a) + np.linalg.norm(b))
    return float(np.linalg.norm(a - b)) / size if size else 0.0


def mass_shift(a: np.ndarray, b: np.ndarray) -> float:
    """The share of the mass of masks (K, h, w) that lies elsewhere, mean over K; 1 if one is black.

    Half the sum of |a-b| after each mask is made to sum to one.
    """
    shifts = []
    for left, right in zip(a, b, strict=True):
        total = float(left.sum()), float(right.sum())
        if not all(total):
            shifts.append(float(any(total)))
            continue
        shifts.append(0.5 * float(np.abs(left / total[0] - right / total[1]).sum()))
    return float(np.mean(shifts))


def _require_same_game(env: GameVecEnv, chosen: list[Variant]) -> None:
    if not env.game.has_truth:
        return  # no ground truth there; rewards and ends are compared all the same
    clean, *others = env.objects()
    for variant, objects in zip(chosen, others, strict=True):
        if env.game.facts(objects.console) != env.game.facts(clean.console):
            raise UserError(f"{reason(variant)}: leave it out.")


# -- of run folders -------------------------------------------------------------------------------


def comparable(variants: list[Variant]) -> tuple[list[Variant], list[str]]:
    """The variants that can be compared, and why the others cannot."""
    chosen = [v for v in variants if v.effects and not changes_the_game(v)]
    return chosen, [reason(v) for v in variants if changes_the_game(v)]


def twin_rows(
    target: Measured,
    variants: list[Variant],
    *,
    steps: int,
    seed: int,
    games: str,
    deterministic: bool,
    sticky: float,
    workers: int,
) -> pd.DataFrame:
    """The rows of these variants; only those that are not in the file are measured."""
    path = target.place / FILES["twin"]
    there, _ = tables.read(path, TWIN)
    protocol = {"method": target.method, "eval_seed": seed, "sticky": sticky}
    protocol |= {"deterministic": deterministic}
    whose = whose_games(games, target.seed)

    def rows(frame: pd.DataFrame, variant: Variant, step: int) -> pd.DataFrame:
        same = (frame["variant"] == label(variant)) & (frame["step"] == step)
        for column, value in protocol.items():
            same &= frame[column] == value
        seeds = {e: Task(variant, e, seed, whose).game_seed for e in set(frame["episode"])}
        same &= frame["game_seed"] == frame["episode"].map(seeds)
        return frame[same].sort_values(["episode", "step_in_game"])[:steps]

    new = [v for v in variants if len(rows(there, v, target.step)) < steps]
    step = target.step
    if new:
        model = target.load()
        step = int(model.num_timesteps)
        measured = twin_evaluation(
            model,
            new,
            steps,
            seed,
            games=games,
            deterministic=deterministic,
            sticky=sticky,
            workers=workers,
            labels=target.labels(step),
            **target.settings,
        )
        there = tables.merge(path, measured, TWIN)
    found = pd.concat([rows(there, v, step) for v in variants], ignore_index=True)
    return found.assign(run=target.name)


def twin_summary(rows: pd.DataFrame) -> list[list[str]]:
    """Means per run and variant, as text; the header comes first."""
    lines = [["run", "variant", "steps", *TWIN_MEASURES]]
    for (run, variant), part in rows.groupby(["run", "variant"], sort=False):
        means = [f"{part[m].mean():.3f}" if part[m].notna().any() else "-" for m in TWIN_MEASURES]
        lines.append([str(run), str(variant), str(len(part)), *means])
    return lines
