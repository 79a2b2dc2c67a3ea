"""Play into a recording: random actions, the game's scripted player, or a trained agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from reprl.envs.games import game as game_of
from reprl.envs.games import no_script
from reprl.errors import UserError
from reprl.naming import variant_label
from reprl.recordings.storage import PLAYERS, Facts, RecordedPlay, Writer
from reprl.rng import numpy_stream, stream_seed

Act = Callable[[np.ndarray, np.ndarray], np.ndarray]  # observations, starts -> actions (n,)


class Recorded(Protocol):
    """What a recorder asks of an environment."""

    num_envs: int
    settings: Any
    variants: list[Any]
    action_meanings: list[str]

    def reset(self) -> np.ndarray: ...
    def step(self, actions: np.ndarray) -> Any: ...
    def objects(self) -> Any: ...


def player_for(player: str, env: Recorded, seed: int, *, agent: Any = None) -> Act:
    """How a player chooses; its draws come from a stream of its own."""
    rng = numpy_stream(seed, "recording", "actions")
    n_actions = len(env.action_meanings)
    if agent is not None:
        from reprl.policy import player_of, sample_actions

        network = player_of(agent)
        state = network.initial_state(env.num_envs)

        def from_policy(observations: np.ndarray, starts: np.ndarray) -> np.ndarray:
            nonlocal state
            outputs, state = network.outputs(observations, state, starts)
            return sample_actions(outputs.probs, rng.random(env.num_envs))

        return from_policy
    if player == "random":
        return lambda observations, starts: rng.integers(n_actions, size=env.num_envs)
    if (script := game_of(env.settings.game).scripted) is None:
        raise UserError(no_script("player=scripted", env.settings.game))
    scripted = script(seed=stream_seed(seed, "recording", "scripted") % 2**31)
    return lambda observations, starts: scripted.predict(env.objects())


def record(
    env: Recorded,
    folder: Path,
    *,
    player: str,
    frames: int,
    seed: int,
    agent: Any = None,
) -> RecordedPlay:
    """Record at least `frames` frames, whole steps of all environments, into a new folder."""
    settings = env.settings
    if settings.observation != "frames" or not settings.gray:
        shown = "gray=false" if settings.observation == "frames" else settings.observation
        raise UserError(f"a recording holds gray frames, and this environment shows {shown}.")
    facts = Facts(
        game=settings.game,
        variants=list(dict.fromkeys(variant_label(v.name, v.severity) for v in env.variants)),
        size=settings.size,
        background=settings.background,
        sticky=settings.sticky,
        seed=seed,
        player=player if player in PLAYERS else "agent",
        n_envs=env.num_envs,
        action_meanings=list(env.action_meanings),
    )
    act = player_for(player, env, seed, agent=agent)
    observations = env.reset()  # (n, stack, size, size)
    starts = np.ones(env.num_envs, bool)
    with Writer(folder, facts) as writer:
        while writer.frames < frames:
            actions = act(observations, starts)
            following, rewards, dones, infos = env.step(actions)
            cut = np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
            finals = [i["terminal_observation"][-1] for i, d in zip(infos, dones, strict=True) if d]
            writer.add(
                frames=observations[:, -1],
                actions=actions,
                rewards=rewards,
                starts=starts,
                ends=np.where(dones, np.where(cut, 2, 1), 0),
                finals=finals,
            )
            observations, starts = following, np.asarray(dones, bool)
    return RecordedPlay.open(folder)
