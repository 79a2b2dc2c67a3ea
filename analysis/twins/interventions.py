"""Who cares about what: an object is changed through RAM, and the policy's reaction is measured.

a moment, a few steps ago -> **one object moved or deleted, the same actions** -> what the agent
would do now, against what it does in the unchanged game -> `evaluation/interventions.csv`. All
frames of the stack show the changed game, so nothing jumps. A moment in which anything else than
the touched object came out differently is not counted. Beside each object's reaction stands what
the agent's mask or gradient claims of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats

from reprl import tables
from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.views import even_maps, look, make_view, pixel_maps
from reprl.analysis.probe.record import PLAYERS, behaviour
from reprl.analysis.probe.subject import Subject, subject
from reprl.envs import make_vec_env
from reprl.envs.defaults import CLEAN
from reprl.envs.games import Game, Scripted
from reprl.envs.games import game as game_of
from reprl.envs.games.base import Intervention
from reprl.envs.objects import Objects
from reprl.envs.variation import find
from reprl.envs.vector import AtariVecEnv
from reprl.errors import UserError
from reprl.evaluation.checkpoints import Measured
from reprl.evaluation.episodes import FRAME_LIMIT
from reprl.evaluation.players import Agent, Task, labels_of
from reprl.evaluation.twin import jensen_shannon
from reprl.policy import State, restarted
from reprl.schema import FILES, INTERVENTIONS
from reprl.settings import TWINS
from reprl.validation import checker, choice

FEWEST = 10  # moments that an object must be changed in to be reported


@dataclass(frozen=True)
class ChangedMoment:
    """One moment in the unchanged game (world 0) and in each changed one."""

    observations: np.ndarray  # (1 + K, C, H, W)
    objects: list[list[Objects]]  # (T, 1 + K) from the step before the change to the moment
    actions: list[int]  # (T - 1,) that led from one to the next
    probs: np.ndarray  # (1 + K, A)
    values: np.ndarray  # (1 + K,)
    state: State  # what the agent carries into world 0, (1, ...)

    def counts(self, world: int, change: Intervention) -> bool:
        """Whether only the touched object differs, and it does."""
        return only_changed(self.objects[-1][0], self.objects[-1][world], change.object)


def only_changed(clean: Objects, other: Objects, name: str) -> bool:
    """Whether an object differs between two worlds, is in view in both, and nothing else does."""
    for box, there in clean.boxes.items():
        here = other.boxes[box]
        if box == name and (there is None or here is None or there == here):
            return False
        if box != name and there != here:
            return False
    for grid, cells in clean.grids.items():
        same = np.array_equal(cells.cells, other.grids[grid].cells)
        if same == (grid == name):
            return False
    return clean.score == other.score and clean.lives == other.lives


def interventions(
    agent: Any,
    *,
    frames: int = 200,
    games: int = 4,
    every: int = 8,
    seed: int = 0,
    player: str = "agent",
    method: str | None = None,
    labels: dict[str, Any] | None = None,
    **settings: Any,
) -> pd.DataFrame:
    """One row for each change, of the agent and of scripted players that are blind to something.

    js, flips and value_error say how the policy and the value react, means over `n_frames` moments;
    `excluded` are those in which something else changed as well. claim is the share of the view's
    map that lies on the object, claim_density the same as a multiple of an even map's, and
    rank_correlation (one number a run) Spearman's of js and claim_density over all changes.
    """
    began = time.perf_counter()
    check = checker(TWINS)
    frames, games, every = check("frames", frames), check("games", games), check("every", every)
    seed = check("seed", seed)
    choice("player", player, PLAYERS)
    who = subject(agent, labels, settings, "an intervention")
    game = game_of(who.game)
    if not game.interventions:
        raise UserError(
            f"game '{who.game}' says of no object how it is changed through RAM: give its Game "
            "interventions=(...)."
        )
    found = windows(who, game, frames=frames, games=games, every=every, seed=seed, player=player)
    if not found:
        raise UserError(f"frames={frames}: no game lasted long enough to change it; ask for more.")
    about = who.about | {"variant": CLEAN, "player": player, "eval_seed": seed}
    rows = list(_reactions(found, game))
    view = make_view(network_of(who.model), method)
    for row, claim in zip(rows, _claims(view, found, game), strict=True):
        row |= claim | {"view": view.name}
    correlation = rank_correlation([r["js"] for r in rows], [r["claim_density"] for r in rows])
    table = [about | row | {"rank_correlation": correlation} for row in rows]
    for name, script in controls(game, seed).items():
        own = labels_of(name, train_seed=-1)
        about |= {column: own[column] for column in ("run", "method", "train_seed", "step")}
        table += [about | row for row in _scripted_reactions(found, game, script)]
    answer = pd.DataFrame(table, columns=list(INTERVENTIONS.columns))
    answer.attrs["seconds"] = time.perf_counter() - began
    return answer


def write(target: Measured, table: pd.DataFrame) -> Path:
    """Put the rows beside the evaluation; the same measurement made again is replaced."""
    path = target.place / FILES["interventions"]
    tables.merge(path, table, INTERVENTIONS)
    return path


def controls(game: Game, seed: int) -> dict[str, Scripted]:
    """The scripted player, seeing everything and blind to each object it can be blind to."""
    if game.scripted is None:
        return {}
    found = {"scripted": game.scripted(seed=seed)}
    for name in game.scripted.blindness:
        if name in game.classes:
            found[f"scripted blind_to={name}"] = game.scripted(blind_to=(name,), seed=seed)
    return found


# -- playing ----------------------------------------------------------------------------------


def windows(
    who: Subject, game: Game, *, frames: int, games: int, every: int, seed: int, player: str
) -> list[ChangedMoment]:
    """Moments of several games one after the other, at most `frames`, `every` steps apart."""
    changes = game.interventions
    depth = (int(who.settings.get("stack", 4)) - 1) * int(who.settings.get("gap", 1)) + 1
    env = make_vec_env(
        CLEAN,
        1 + len(changes),
        training=False,
        max_frames=FRAME_LIMIT,
        **{**who.settings, "sticky": 0.0},
    )
    found: list[ChangedMoment] = []
    try:
        agent = behaviour(who.model, player, env, seed)
        for number in range(games):
            share = (frames - len(found)) // (games - number)
            task = Task(find(CLEAN), number, seed, who.whose)
            found += _one_game(env, agent, who, task, depth, max(1, share), every, changes)
    finally:
        env.close()
    return found


def _one_game(
    env: AtariVecEnv,
    agent: Agent,
    who: Subject,
    task: Task,
    depth: int,
    share: int,
    every: int,
    changes: Sequence[Intervention],
) -> list[ChangedMoment]:
    n, uniforms, watcher = env.num_envs, task.uniforms(), who.watcher
    for row in range(n):
        env.queue(row, task.game_seed)
    observations = env.reset()
    state = watcher.initial_state(n)
    found: list[ChangedMoment] = []

    def act() -> int:
        draw = np.array([uniforms.random()])
        return int(agent.act(observations[:1], lambda: env.objects()[:1], draw, [task])[0])

    def go_on(action: int, rows: int) -> bool:
        nonlocal observations, state
        if state:
            state = watcher.outputs(observations, state)[1]
        actions = np.full(n, -1)
        actions[:rows] = action
        _, _, dones, _ = env.step(actions)
        observations = env.observations()
        state = restarted(watcher, state, np.asarray(dones))
        return bool(np.asarray(dones)[:rows].any())

    while len(found) < share:
        if any(go_on(act(), 1) for _ in range(max(0, every - depth))):
            break
        env.repeat(0, range(1, n))
        observations = env.observations()
        state = tuple(part[:1].expand(n, *part.shape[1:]).clone() for part in state)
        objects, actions, over = [env.objects()], [], False
        for row, change in enumerate(changes, 1):
            env.intervene(row, change.make())
        for _ in range(depth):
            actions.append(act())
            over = over or go_on(actions[-1], n)
            objects.append(env.objects())
            if over:
                break
        if over:
            if _ended(env, objects):
                break
            continue
        outputs, _ = watcher.outputs(observations, state)
        found.append(
            ChangedMoment(
                observations,
                objects,
                actions,
                outputs.probs,
                outputs.values,
                tuple(s[:1] for s in state),
            )
        )
    return found


def _ended(env: AtariVecEnv, objects: list[list[Objects]]) -> bool:
    """Whether the unchanged game is over; a changed one may end earlier and is set right again."""
    return env.standing(0)[1] < 4 * len(objects) or objects[-1][0].score < objects[0][0].score


# -- reactions --------------------------------------------------------------------------------


def _reactions(found: list[ChangedMoment], game: Game) -> Iterator[dict[str, Any]]:
    for world, change in enumerate(game.interventions, 1):
        used = [w for w in found if w.counts(world, change)]
        row: dict[str, Any] = {"object": change.object, "change": change.change}
        row |= {"n_frames": len(used), "excluded": len(found) - len(used)}
        enough = len(used) >= min(FEWEST, len(found))
        if enough and used:
            row["js"] = float(np.mean([jensen_shannon(w.probs[0], w.probs[world]) for w in used]))
            flips = [w.probs[0].argmax() != w.probs[world].argmax() for w in used]
            row["flips"] = float(np.mean(flips))
            row["value_error"] = float(np.mean([abs(w.values[0] - w.values[world]) for w in used]))
        else:
            row |= {"js": np.nan, "flips": np.nan, "value_error": np.nan}
        yield row


def _scripted_reactions(
    found: list[ChangedMoment], game: Game, script: Scripted
) -> Iterator[dict[str, Any]]:
    """The same of a scripted player: its action is one or another."""
    for world, change in enumerate(game.interventions, 1):
        used = [w for w in found if w.counts(world, change)]
        pairs = [(_meant(script, w, 0), _meant(script, w, world)) for w in used]
        flips = float(np.mean([a != b for a, b in pairs])) if pairs else np.nan
        row: dict[str, Any] = {"object": change.object, "change": change.change}
        row |= {"js": flips * np.log(2), "flips": flips, "n_frames": len(used)}
        yield row | {"excluded": len(found) - len(used), "view": "none"}


def _meant(script: Scripted, window: ChangedMoment, world: int) -> int:
    """What a scripted player would do at the window's end, having watched it in one world."""
    fresh = type(script)(script.skill, script.blind_to, seed=script.seed)
    before, costs = 0, np.zeros((1, 1))
    for moment, action in zip(window.objects, [*window.actions, 0], strict=True):
        costs = fresh.costs([moment[world]], [before])
        before = action
    return int(costs[0].argmin())


def _claims(view: Any, found: list[ChangedMoment], game: Game) -> Iterator[dict[str, Any]]:
    """Per change: the share of the view's map on the touched object, and over an even map's."""
    pictures = np.stack([w.observations[0] for w in found])  # (n, C, H, W)
    size = (int(pictures.shape[2]), int(pictures.shape[3]))
    state = tuple(torch.cat(parts) for parts in zip(*(w.state for w in found), strict=True))
    cells = look(view, pictures, state)
    maps, even = pixel_maps(view, cells, size), even_maps(view, cells, size)
    total, usual = maps.sum(axis=(1, 2)), even.sum(axis=(1, 2))
    for world, change in enumerate(game.interventions, 1):
        shares, densities = [], []
        for i, window in enumerate(found):
            if not window.counts(world, change) or total[i] <= 0:
                continue
            mask = touched(window.objects[-1][0], change, size)
            share = float(maps[i][mask].sum() / total[i])
            shares.append(share)
            densities.append(share / max(float(even[i][mask].sum() / usual[i]), 1e-12))
        known = len(shares) >= min(FEWEST, len(found)) and shares
        yield {
            "claim": float(np.mean(shares)) if known else np.nan,
            "claim_density": float(np.mean(densities)) if known else np.nan,
        }


def touched(objects: Objects, change: Intervention, size: tuple[int, int]) -> np.ndarray:
    """The pixels (H, W) of what a change touches, where it is in the unchanged game."""
    if change.object in objects.grids and change.cells is not None:
        grid = objects.grids[change.object]
        only = np.zeros_like(grid.cells)
        only[change.cells] = grid.cells[change.cells]
        objects = replace(
            objects, grids={**objects.grids, change.object: replace(grid, cells=only)}
        )
    found: np.ndarray = objects.masks(size)[change.object]
    return found


def rank_correlation(reactions: Sequence[float], claims: Sequence[float]) -> float:
    """Spearman's over the changes of which both are known; NaN for fewer than three."""
    pairs = np.array([reactions, claims], float)
    pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
    if pairs.shape[1] < 3 or any(np.ptp(side) == 0 for side in pairs):
        return float("nan")
    return float(stats.spearmanr(*pairs).statistic)
