"""Recordings: an agent plays a variant, and everything about where it looked is kept.

Full games with actions from a seeded stream. Pictures are kept of the first environment only,
together with those of its twin: the same game, the same actions, without the variant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from reprl.analysis.attention.views import Attribution, look, pixel_maps
from reprl.envs.defaults import CLEAN, DEFAULT_GAME
from reprl.envs.games import Game, no_script
from reprl.envs.games import game as game_of
from reprl.envs.objects import Objects
from reprl.envs.protocol import GameVecEnv, VariantSpec
from reprl.envs.variation import find
from reprl.envs.vector import make_vec_env
from reprl.errors import UserError
from reprl.evaluation.play_loop import PlayLoop
from reprl.evaluation.variants import label
from reprl.policy import State
from reprl.rng import numpy_stream

LIFE_GAP = 100  # added to the clock at a lost life, so that no lag is sought across it
# environment, observations -> actions; its name tells recordings of different ones apart
Behaviour = Callable[[GameVecEnv, np.ndarray], np.ndarray]


@dataclass
class Recording:
    """N looks in the order they were taken; M of them are of the first environment."""

    view: Attribution
    game: Game
    variant: str
    player: str  # who chose the actions: "agent", or the name of a `Behaviour`
    observations: np.ndarray  # (N, C, H, W) uint8
    state: State  # what the agent carried into each look, (N, ...); () without a memory
    cells: Tensor  # (N, 1, h, w), the view's attention
    objects: list[Objects] | None  # None: a game without ground truth
    blocks: np.ndarray  # (N,) which game a look is from
    times: np.ndarray  # (N,) agent steps within the game, with a jump at each lost life
    probabilities: np.ndarray  # (N, A); (N, 0) of continuous actions
    values: np.ndarray  # (N,); (0,) of continuous actions
    film: np.ndarray  # (M,) the looks that have pictures
    frames: np.ndarray  # (M, 210, 160, 3) in Breakout
    scores: np.ndarray  # (M,) points in the game so far
    clean_frames: np.ndarray | None  # (M, 210, 160, 3), None where the variant changes the game
    clean_cells: Tensor | None  # (M, 1, h, w), where the agent would look without the variant
    channels: int = 1  # of one frame of an observation

    def maps(self, size: int | tuple[int, int] | None = None) -> np.ndarray:
        """Attention on the observation's pixels, or on a picture of another size: (N, H, W)."""
        return pixel_maps(self.view, self.cells, size or self.view.network.shape[1:])

    def weights(self) -> np.ndarray:
        """Attention of each cell, row by row: (N, M)."""
        return self.cells.flatten(1).cpu().numpy()

    def uniform(self) -> np.ndarray | None:
        """A map that is the same in all cells, on the observation's pixels (H, W); None if even."""
        size = self.view.network.shape[1:]
        found = pixel_maps(self.view, torch.ones_like(self.cells[:1]), size)[0]
        return None if np.ptp(found) < 1e-4 * found.max() else found

    def masks(self) -> dict[str, np.ndarray]:
        """What is where in the observation, per class (N, H, W) bool."""
        if self.objects is None:
            raise UserError("this game has no ground truth: attention is drawn, but not scored.")
        found = [o.masks(self.view.network.shape[1:]) for o in self.objects]
        return {name: np.stack([masks[name] for masks in found]) for name in found[0]}

    def movers(self, masks: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All boxed objects as one class of `masks`, "ball or paddle"; none where there is one."""
        assert self.objects is not None
        names = list(self.objects[0].boxes)
        if len(names) < 2:
            return {}
        return {" or ".join(names): np.logical_or.reduce([masks[name] for name in names])}


@dataclass
class _Log:
    """What the loop appends to."""

    rows: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, **values: Any) -> None:
        for name, value in values.items():
            self.rows.setdefault(name, []).append(value)

    def stacked(self, name: str) -> np.ndarray:
        return np.concatenate(self.rows[name])

    def states(self, name: str) -> State:
        return tuple(torch.cat(parts) for parts in zip(*self.rows[name], strict=True))


def collect(
    view: Attribution,
    variant: VariantSpec = CLEAN,
    *,
    steps: int = 1000,
    seed: int = 0,
    n_envs: int = 8,
    player: Behaviour | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Recording:
    """Play `steps` agent steps in all and record every n-th (n = `view.every`).

    `player` chooses the actions, by default the agent itself, sampled; the scripted player
    brings a weak agent to states it would never reach. The agent watches all the same: what it
    remembers is of these games. `settings` go to `make_vec_env`.
    """
    n_envs = max(1, min(n_envs, steps // view.every))
    chosen = {**(settings or {}), "training": False, "seed": seed}
    meant = find(variant, None, str(chosen.get("game", DEFAULT_GAME)))
    env = make_vec_env(meant, n_envs=n_envs, **chosen)
    twin = None
    try:
        if meant.effects:
            twin = make_vec_env(CLEAN, n_envs=1, **chosen)
        log = _play(view, env, twin, player, seed, rounds=-(-steps // n_envs))
    finally:
        env.close()
        if twin is not None:
            twin.close()
    observations = log.stacked("observations")
    count = len(log.rows["observations"])
    discrete = "probs" in log.rows
    same = twin is not None and all(log.rows["same"])
    state = log.states("state")
    return Recording(
        view=view,
        game=env.game,
        variant=label(meant),
        player="agent" if player is None else getattr(player, "__name__", type(player).__name__),
        observations=observations,
        channels=max(getattr(env, "channels", 1), view.network.channels),
        state=state,
        cells=look(view, observations, state),
        objects=[o for row in log.rows["objects"] for o in row] if "objects" in log.rows else None,
        blocks=log.stacked("blocks"),
        times=log.stacked("times"),
        probabilities=log.stacked("probs") if discrete else np.zeros((len(observations), 0)),
        values=log.stacked("values") if discrete else np.zeros(0),
        film=np.arange(count) * n_envs,
        frames=np.stack(log.rows["frames"]),
        scores=np.array(log.rows["scores"]),
        clean_frames=np.stack(log.rows["clean_frames"]) if same else None,
        clean_cells=look(view, log.stacked("clean_observations"), log.states("clean_state"))
        if same
        else None,
    )


def _play(
    view: Attribution,
    env: GameVecEnv,
    twin: GameVecEnv | None,
    player: Behaviour | None,
    seed: int,
    rounds: int,
) -> _Log:
    log = _Log()
    n = env.num_envs
    truth, facts = env.game.has_truth, env.game.facts
    # The agent's own actions have a stream of their own. Each view of a game has its own state.
    stream = numpy_stream(seed, "attention", "actions")
    loop = PlayLoop(env, view.network)
    clean = None if twin is None else PlayLoop(twin, view.network)
    game, clock, score = np.zeros(n, int), np.zeros(n, int), 0.0
    lives: np.ndarray | None = None
    same = True
    for step in range(rounds):
        if step % view.every == 0:
            log.add(observations=loop.observations, state=loop.state)
            if not view.network.continuous:
                outputs = loop.outputs()
                log.add(probs=outputs.probs, values=outputs.values)
            log.add(blocks=np.arange(n) + n * game, times=clock.copy())
            log.add(frames=env.frame(0), scores=score)
            if truth:
                log.add(objects=env.objects())
            if twin is not None and clean is not None:
                if truth:
                    here, there = log.rows["objects"][-1][0], twin.objects()[0]
                    same = same and facts(here.console) == facts(there.console)
                log.add(clean_frames=twin.frame(0), same=same)
                log.add(clean_observations=clean.observations, clean_state=clean.state)
        if player is None:
            actions = loop.choose(stream.random(n))
        else:
            actions = player(env, loop.observations)
        _, dones, infos = loop.step(actions)
        left = np.array([info["lives"] for info in infos])
        if clean is not None:
            _, over, about = clean.step(actions[:1])
            moved = (infos[0]["raw_reward"], dones[0]) == (about[0]["raw_reward"], over[0])
            same = same and moved
        clock += 1 if lives is None else 1 + LIFE_GAP * (left < lives)
        lives = left
        game, clock = game + dones, np.where(dones, 0, clock)
        score = 0.0 if dones[0] else score + infos[0]["raw_reward"]
    return log


def uniform(seed: int) -> Behaviour:
    """Random play; continuous actions are drawn evenly from their box."""
    stream = numpy_stream(seed, "attention", "actions")

    def random(env: GameVecEnv, observations: np.ndarray) -> np.ndarray:
        if isinstance(box := env.action_space, spaces.Box):
            drawn = stream.random((len(observations), *box.shape))
            return (box.low + drawn * (box.high - box.low)).astype(np.float32)
        return stream.integers(len(env.action_meanings), size=len(observations))

    return random


def scripted(seed: int, game: str = DEFAULT_GAME) -> Behaviour:
    """The game's scripted agent, which reads its objects."""
    script = game_of(game).scripted
    if script is None:
        raise UserError(no_script("player=scripted", game))
    agent = script(seed=seed)

    def scripted(env: GameVecEnv, observations: np.ndarray) -> np.ndarray:
        return agent.predict(env.objects())

    return scripted
