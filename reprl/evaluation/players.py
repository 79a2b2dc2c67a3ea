"""Who plays: trained models, the random player and the scripted one behind one small protocol.

All of them choose from a stream of uniforms that belongs to the episode: agents that agree act
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces

from reprl.components import class_of, names, resolve
from reprl.envs import Variant
from reprl.envs.defaults import DEFAULT_GAME, LATER
from reprl.envs.games import Scripted
from reprl.envs.objects import Objects
from reprl.errors import UserError
from reprl.game_seeds import game_seed, stream
from reprl.naming import PERSON, in_game, method_of, parts_of
from reprl.policy import ContinuousPlayer, Player, State, player_of, sample_actions
from reprl.rng import numpy_stream, stream_seed
from reprl.schedules import Schedule
from reprl.schema import PARTS


@dataclass(frozen=True)
class Task:
    """One game to play: equal `seed`, `episode` and `train_seed` mean the same start and uniforms.

    `train_seed` is None for games that all runs share.
    """

    variant: Variant
    episode: int
    seed: int
    train_seed: int | None = None

    @property
    def key(self) -> tuple[str, float | None, int, int]:
        """Identifies the game; a variant's parameters cannot be hashed."""
        return self.variant.name, self.variant.severity, self.episode, self.game_seed

    @property
    def game_seed(self) -> int:
        """What the emulator starts from."""
        return game_seed(self.seed, self.episode, self.train_seed)

    def uniforms(self) -> np.random.Generator:
        """What the actions are drawn from."""
        return numpy_stream(self.seed, *stream("act", self.episode, self.train_seed))


class Contestant(Protocol):
    """Whose games stand in the table of games: `labels` are their columns."""

    labels: dict[str, Any]
    deterministic: bool


class Agent(Contestant, Protocol):
    """Anything that is asked for its actions."""

    def act(
        self,
        observations: np.ndarray,
        objects: Callable[[], list[Objects]],
        uniforms: np.ndarray,
        tasks: Sequence[Task | None],
    ) -> np.ndarray:
        """Actions (n,) for observations (n, stack, size, size) and uniforms (n,) in [0, 1).

        `tasks` says which game each row belongs to, None where nobody plays: for agents that
        remember. One agent is used for one list of games.
        """


class RandomAgent:
    """Every action with equal probability; the actions are the game's unless given.

    Continuous ones are drawn evenly from their `box`.
    """

    deterministic = False

    def __init__(self, n_actions: int | None = None, *, box: spaces.Box | None = None) -> None:
        self.n_actions, self.box = n_actions, box
        self.labels = labels_of("random")

    def act(
        self,
        observations: np.ndarray,
        objects: Callable[[], list[Objects]],
        uniforms: np.ndarray,
        tasks: Sequence[Task | None],
    ) -> np.ndarray:
        if self.box is not None:
            drawn = [np.random.default_rng(int(u * 2**53)).random(self.box.shape) for u in uniforms]
            found = self.box.low + np.stack(drawn) * (self.box.high - self.box.low)
            return found.astype(np.float32)
        assert self.n_actions is not None
        return (uniforms * self.n_actions).astype(np.int64)


class Person:
    """Whoever sits at the keys (`reprl play record=true`) and so is not asked for actions."""

    deterministic = False

    def __init__(self, name: str) -> None:
        self.labels = labels_of(PERSON, run=f"{PERSON}_{name}".replace(" ", "-"))


class ModelAgent:
    """An SB3 or reprl model; samples from its policy unless `deterministic`.

    `game` is what it plays, for its name; a model of ours knows it.
    """

    def __init__(
        self,
        model: Any,
        *,
        deterministic: bool = False,
        labels: dict[str, Any] | None = None,
        game: str | None = None,
    ) -> None:
        self.model = model
        self.policy = model.policy
        self.deterministic = deterministic
        samples = hasattr(model, "player") or hasattr(self.policy, "get_distribution")
        if not samples and not deterministic:
            raise UserError(
                f"{type(model).__name__} has no action probabilities to sample from: "
                "evaluate it with deterministic=True."
            )
        self.player: Player = player_of(model)
        self._remembers = bool(self.player.initial_state(1))
        self._carried: dict[tuple[Any, ...], State] = {}  # game -> what is remembered of it
        self.labels = model_labels(model, game) | (labels or {})

    def act(
        self,
        observations: np.ndarray,
        objects: Callable[[], list[Objects]],
        uniforms: np.ndarray,
        tasks: Sequence[Task | None],
    ) -> np.ndarray:
        if isinstance(self.player, ContinuousPlayer):
            return self.player.actions(observations, uniforms, deterministic=self.deterministic)
        if self._remembers:
            chances = self._remembering(observations, tasks)
        else:
            chances = self.probabilities(observations)
        return chances.argmax(axis=1) if self.deterministic else sample_actions(chances, uniforms)

    def probabilities(self, observations: np.ndarray) -> np.ndarray:
        """Action probabilities of an agent without memory, (n, n_actions) float64."""
        return self.player.outputs(observations, ())[0].probs

    def _remembering(self, observations: np.ndarray, tasks: Sequence[Task | None]) -> np.ndarray:
        """The same of an agent that carries a state through each game."""
        fresh = self.player.initial_state(len(tasks))
        known = [None if task is None else self._carried.get(task.key) for task in tasks]
        state = tuple(
            torch.stack([new[row] if old is None else old[i] for row, old in enumerate(known)])
            for i, new in enumerate(fresh)
        )
        outputs, state = self.player.outputs(observations, state)
        for row, task in enumerate(tasks):
            if task is not None:
                self._carried[task.key] = tuple(part[row] for part in state)
        return outputs.probs


class ScriptedPlayer:
    """A game's scripted agent, with a memory for each game and a stream for each episode."""

    deterministic = False

    def __init__(self, agent: Scripted) -> None:
        self.agent = agent
        self._memories: dict[tuple[Any, ...], Scripted] = {}
        words = ["scripted"]
        words += [f"skill={agent.skill:g}"] if agent.skill != 1 else []
        words += [f"blind_to={'+'.join(sorted(agent.blind_to))}"] if agent.blind_to else []
        self.labels = labels_of(" ".join(words))

    def act(
        self,
        observations: np.ndarray,
        objects: Callable[[], list[Objects]],
        uniforms: np.ndarray,
        tasks: Sequence[Task | None],
    ) -> np.ndarray:
        actions = np.zeros(len(tasks), np.int64)
        for row, (task, seen) in enumerate(zip(tasks, objects(), strict=True)):
            if task is not None:
                draws = stream_seed(task.seed, *stream("scripted", task.episode, task.train_seed))
                actions[row] = self._memory(task).predict([seen], [draws])[0]
        return actions

    def _memory(self, task: Task) -> Scripted:
        if task.key not in self._memories:
            agent = self.agent
            self._memories[task.key] = type(agent)(agent.skill, agent.blind_to, seed=agent.seed)
        return self._memories[task.key]


def as_agent(thing: Any, *, deterministic: bool = False, game: str | None = None) -> Agent:
    """An agent from an agent, a trained model or a scripted one (reprl.envs.ScriptedAgent)."""
    if isinstance(thing, Scripted):
        return ScriptedPlayer(thing)
    if hasattr(thing, "policy") and hasattr(thing, "predict"):
        return ModelAgent(thing, deterministic=deterministic, game=game)
    if not hasattr(thing, "act") or not hasattr(thing, "labels"):
        raise UserError(
            f"{thing!r} cannot be evaluated: give a trained model, RandomAgent() or "
            "ScriptedAgent(), or an object with act() and labels."
        )
    agent: Agent = thing
    return agent


def model_labels(model: Any, game: str | None = None) -> dict[str, Any]:
    """What a model is called, as its run would be: by its configuration, else by its specs.

    The game that it plays is part of that; where the model does not know it, `game` says it.
    """
    name, seed = type(model).__name__.lower(), getattr(model, "seed", None)
    config = getattr(model, "run_config", None)
    if config is None and getattr(model, "specs", None) is not None:
        config = _described(model)
        seed = model._stream_seed if seed is None else seed
    parts = {"algo": name} if config is None else parts_of(config)
    stock = config is None and type(model).__module__.startswith("stable_baselines3")
    env = (config or {}).get("env", {})
    played = {**env, "game": env.get("game") or game or DEFAULT_GAME}
    method = in_game(f"sb3-{name}" if stock else method_of(parts), played)
    known: dict[str, Any] = {**parts, "step": int(getattr(model, "num_timesteps", 0))}
    if seed is not None:
        known |= {"train_seed": int(seed), "run": f"{method}_s{seed}"}
    if (run := getattr(model, "run_name", None)) is not None:
        known["run"] = run
    return labels_of(method, **known)


def _described(model: Any) -> dict[str, Any]:
    """The configuration of a model that was made in a script, as far as it decides its name."""
    given = {**getattr(model, "arguments", {}), **model.settings()}
    plain = {k: v.plain() if isinstance(v, Schedule) else v for k, v in given.items()}
    paths = [str(resolved["_target_"]) for n in names("algo") if (resolved := resolve("algo", n))]
    own = f"{type(model).__module__}.{type(model).__qualname__}"
    path = next((p for p in paths if class_of("algo", p) is type(model)), own)
    env = getattr(getattr(model, "env", None), "settings", None)
    seen = getattr(model, "observed", None) or {}
    return {
        "algo": {**plain, "_target_": path},
        "encoder": model.specs.encoder,
        "auxiliary": model.specs.auxiliary,
        "augmentation": model.specs.augmentation,
        "intrinsic": model.specs.intrinsic,
        "shaping": getattr(env, "shaping", None),
        "env": {
            key: getattr(env, key, seen.get(key, usual))
            for key, usual in {"game": None, **LATER}.items()
        },
    }


def labels_of(method: str, **known: Any) -> dict[str, Any]:
    """The columns that say which agent a game belongs to; parts that are not named are none."""
    parts = dict.fromkeys(PARTS, "none")
    return {"run": method.replace(" ", "-"), "method": method, **parts} | {
        "train_seed": -1,
        "step": 0,
        **known,
    }
