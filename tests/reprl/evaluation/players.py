"""Cheap agents for the tests of evaluation: they look at every pixel without a network."""

import numpy as np

from reprl.evaluation.players import labels_of


class PixelAgent:
    """Chooses by the observation's checksum and the uniform: any difference of either shows."""

    deterministic = False

    def __init__(self, name="pixels", see=True):
        self.labels = labels_of(name)
        self.see = see
        self.uniforms = {}  # (variant, episode) -> what it was given

    def act(self, observations, objects, uniforms, tasks):
        sums = observations.reshape(len(observations), -1).sum(axis=1, dtype=np.int64)
        for task, uniform in zip(tasks, uniforms, strict=True):
            if task is not None:
                game = self.uniforms.setdefault((task.variant.name, task.episode), [])
                game.append(float(uniform))
        return ((uniforms * 1000).astype(np.int64) + self.see * sums) % 4


class CatchingAgent(PixelAgent):
    """Follows the ball for as many steps as the episode's number says, then stands still."""

    def __init__(self, patience):
        super().__init__("catching")
        self.patience = patience  # episode -> steps
        self.steps = {}

    def act(self, observations, objects, uniforms, tasks):
        actions = np.zeros(len(tasks), np.int64)
        for row, (task, seen) in enumerate(zip(tasks, objects(), strict=True)):
            if task is None:
                continue
            self.steps[task.key] = self.steps.get(task.key, 0) + 1
            if self.steps[task.key] <= self.patience(task.episode) and seen.ball is not None:
                side = seen.ball.center[0] - seen.paddle.center[0]
                actions[row] = 0 if abs(side) < 3 else 2 if side > 0 else 3
        return actions
