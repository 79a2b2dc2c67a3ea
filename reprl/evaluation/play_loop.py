"""The play loop of games that are looked into: twin evaluation, recordings, masked play.

observations -> **policy outputs, with the state each row carries** -> actions -> the next moment.
(A fixed list of games that only count by their scores is played by `reprl.evaluation.episodes`.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reprl.envs.protocol import GameVecEnv
from reprl.policy import ContinuousPlayer, Outputs, Player, State, restarted, sample_actions


class PlayLoop:
    """The games of a vector environment from their start, one moment at a time.

    `state` is what the agent carries into the moment, one row per environment: each view of a game
    has its own.
    """

    def __init__(self, env: GameVecEnv, player: Player) -> None:
        self.env = env
        self.player = player
        self.observations = env.reset()  # (n, stack, size, size) uint8
        self.state: State = player.initial_state(env.num_envs)
        self._seen: tuple[Outputs, State] | None = None  # of this moment

    def outputs(self, observations: np.ndarray | None = None) -> Outputs:
        """Policy outputs of this moment, of other pictures than the game's where these are given.

        What the agent saw first at a moment is what it remembers.
        """
        if self._seen is None:
            shown = self.observations if observations is None else observations
            self._seen = self.player.outputs(shown, self.state)
        return self._seen[0]

    def choose(self, uniforms: np.ndarray, *, deterministic: bool = False) -> np.ndarray:
        """The agent's own actions of this moment, drawn by uniforms (n,) or what it likes best."""
        player = getattr(self.player, "player", self.player)  # a Network plays as its player does
        if isinstance(player, ContinuousPlayer):
            return player.actions(self.observations, uniforms, deterministic=deterministic)
        probs = self.outputs().probs
        return probs.argmax(axis=1) if deterministic else sample_actions(probs, uniforms)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Go on to the next moment; rewards (n,), dones (n,) and infos of the step."""
        if self.state:
            self.outputs()
            assert self._seen is not None
            self.state = self._seen[1]
        _, rewards, dones, infos = self.env.step(actions)
        self.observations = self.env.observations()
        self.state = restarted(self.player, self.state, np.asarray(dones))
        self._seen = None
        return rewards, dones, infos
