"""Moments of held-out games as probes need them: one state, its truth, and all its pictures.

agent, scripted or random player on the clean game -> **the same actions in every variant** ->
observations by variant, objects. What is seen of a state is compared with the clean twin's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from reprl.envs import Variant, make_vec_env
from reprl.envs.defaults import CLEAN
from reprl.envs.games import no_script
from reprl.envs.objects import Objects
from reprl.envs.protocol import GameVecEnv
from reprl.envs.variation import find
from reprl.errors import UserError
from reprl.evaluation.episodes import FRAME_LIMIT
from reprl.evaluation.players import Agent, ModelAgent, RandomAgent, ScriptedPlayer, Task
from reprl.evaluation.twin import reason
from reprl.evaluation.variants import label
from reprl.policy import PolicyPlayer, State, restarted

PLAYERS = ("agent", "scripted", "random")
MANY = 100_000  # games that follow one another in one place are so many numbers apart


@dataclass(frozen=True)
class Moments:
    """N moments, in the order of time and then of games; views by the variant's label."""

    observations: dict[str, np.ndarray]  # (N, C, H, W) uint8
    states: dict[str, State]  # what the agent carried into each moment, (N, ...)
    objects: list[Objects]  # of the clean game, which all views share
    before: list[Objects | None]  # one step earlier; None where the game had just begun
    games: np.ndarray  # (N,) which game
    channels: int = 1  # of one frame of an observation

    def rows(self, view: str, frames: np.ndarray) -> tuple[np.ndarray, State]:
        """Observations and states of some moments in one view."""
        return self.observations[view][frames], tuple(s[frames] for s in self.states[view])


def behaviour(model: Any, name: str, env: GameVecEnv, seed: int) -> Agent:
    """Who chooses the actions; everybody plays on the clean picture."""
    if name == "random":
        box = env.action_space if isinstance(env.action_space, spaces.Box) else None
        return RandomAgent(len(env.action_meanings), box=box)
    if name == "scripted":
        if env.game.scripted is None:
            raise UserError(no_script("player=scripted", env.settings.game))
        if isinstance(env.action_space, spaces.Box):
            raise UserError(
                "player=scripted chooses among discrete actions, and this agent plays with "
                "continuous ones: choose player=agent or random."
            )
        return ScriptedPlayer(env.game.scripted(seed=seed))
    samples = hasattr(model, "player") or hasattr(model.policy, "get_distribution")
    return ModelAgent(model, deterministic=not samples)


def record(
    model: Any,
    watcher: PolicyPlayer,
    variants: Sequence[Variant],
    *,
    frames: int,
    games: range,
    every: int,
    seed: int,
    whose: int | None,
    player: str,
    settings: Mapping[str, Any],
) -> Moments:
    """Play len(games) games side by side, in every view at once, and keep every n-th moment.

    A game that ends is followed by another of a number that no other range has.
    """
    views, slots = [find(CLEAN), *variants], len(games)
    n = len(views)
    env = make_vec_env(
        views, slots * n, training=False, max_frames=FRAME_LIMIT, **{**settings, "sticky": 0.0}
    )
    try:
        agent = behaviour(model, player, env, seed)
        return _play(env, agent, watcher, views, frames, games, every, seed, whose)
    finally:
        env.close()


def _play(
    env: GameVecEnv,
    agent: Agent,
    watcher: PolicyPlayer,
    views: list[Variant],
    frames: int,
    games: range,
    every: int,
    seed: int,
    whose: int | None,
) -> Moments:
    slots, n = len(games), len(views)
    # Row i of the environment is game i // n in view i % n.
    tasks = [Task(views[0], number, seed, whose) for number in games]
    after = [number + MANY for number in games]

    def line_up(slot: int) -> None:
        for row in range(slot * n, slot * n + n):
            env.queue(row, Task(views[0], after[slot], seed, whose).game_seed)

    for slot, task in enumerate(tasks):
        for row in range(slot * n, slot * n + n):
            env.queue(row, task.game_seed)
        line_up(slot)
    uniforms = [task.uniforms() for task in tasks]
    observations = env.reset()
    state = watcher.initial_state(env.num_envs)
    kept: list[np.ndarray] = []
    kept_states: list[State] = []
    objects: list[Objects] = []
    before: list[Objects | None] = []
    numbers: list[int] = []
    earlier: list[Objects | None] = [None] * slots
    rounds = -(-frames // slots) * every
    for clock in range(rounds):
        if clock % every == every - 1:
            seen = env.objects()
            _require_same(env, seen, views)
            kept.append(observations)
            kept_states.append(state)
            objects += seen[::n]
            before += earlier
            numbers += [task.episode for task in tasks]
        if (clock + 1) % every == every - 1:
            earlier = list(env.objects()[::n])
        draws = np.array([stream.random() for stream in uniforms])
        actions = agent.act(observations[::n], lambda: env.objects()[::n], draws, tasks)
        if state:
            state = watcher.outputs(observations, state)[1]
        _, rewards, dones, _ = env.step(np.repeat(actions, n, axis=0))
        observations = env.observations()
        state = restarted(watcher, state, np.asarray(dones))
        _require_same_outcome(rewards, dones, views)
        for slot in np.flatnonzero(dones[::n]).tolist():
            tasks[slot] = Task(views[0], after[slot], seed, whose)
            uniforms[slot], earlier[slot] = tasks[slot].uniforms(), None
            after[slot] += MANY
            line_up(slot)
    pictures = np.stack(kept)  # (T, slots * n, C, H, W)
    past = tuple(torch.stack(parts) for parts in zip(*kept_states, strict=True))
    names = [label(variant) for variant in views]
    return Moments(
        observations={name: _flat(pictures[:, i::n]) for i, name in enumerate(names)},
        states={
            name: tuple(p[:, i::n].flatten(0, 1) for p in past) for i, name in enumerate(names)
        },
        objects=objects,
        before=before,
        games=np.array(numbers),
        channels=getattr(env, "channels", 1),
    )


def _flat(pictures: np.ndarray) -> np.ndarray:
    return pictures.reshape(-1, *pictures.shape[2:])


def _require_same(env: GameVecEnv, seen: list[Objects], views: list[Variant]) -> None:
    """Refuse a variant in which a moment is another one than in the clean game."""
    n, facts = len(views), env.game.facts
    for row, objects in enumerate(seen):
        clean = seen[row - row % n]
        if row % n and facts(objects.console) != facts(clean.console):
            raise UserError(f"{reason(views[row % n])}: leave it out.")


def _require_same_outcome(rewards: np.ndarray, dones: np.ndarray, views: list[Variant]) -> None:
    n = len(views)
    for outcome in (np.asarray(rewards).reshape(-1, n), np.asarray(dones).reshape(-1, n)):
        differs = (outcome != outcome[:, :1]).any(axis=0)
        if differs.any():
            raise UserError(f"{reason(views[int(differs.argmax())])}: leave it out.")
