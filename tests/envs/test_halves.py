"""Stepping the environments in halves: the same results, and neither half waits for the other."""

import os
import signal

import numpy as np
import pytest

from reprl.envs import make_vec_env
from reprl.errors import UserError

MIXTURE = ["moving_square", "green_lines", "original"]


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_stepping_in_halves_changes_nothing(workers):
    """Halves under way at once, received in either order, with a worker that has rows of both."""
    whole = make_vec_env(MIXTURE, n_envs=5, seed=7, sticky=0.25)
    halves = make_vec_env(MIXTURE, n_envs=5, seed=7, sticky=0.25, workers=workers)
    np.testing.assert_array_equal(whole.reset(), halves.reset())
    rng = np.random.default_rng(0)
    ended = 0
    for step in range(100):
        actions = rng.integers(-1, 4, size=5)
        expected = whole.step(actions)
        halves.send(0, actions[:3])
        halves.send(1, actions[3:])
        order = (0, 1) if step % 2 else (1, 0)
        got = [halves.receive(h) for h in order][:: 1 if step % 2 else -1]
        for k in range(3):
            np.testing.assert_array_equal(np.concatenate([g[k] for g in got]), expected[k])
        for info, other in zip(got[0][3] + got[1][3], expected[3], strict=True):
            assert info.keys() == other.keys()
            assert (info["lives"], info["raw_reward"]) == (other["lives"], other["raw_reward"])
            if "terminal_observation" in info:
                ended += 1
                terminal = other["terminal_observation"]
                np.testing.assert_array_equal(info["terminal_observation"], terminal)
    assert ended >= 3
    assert whole.snapshot()[-1000:] == halves.snapshot()[-1000:]
    halves.close()


def test_a_half_leaves_the_other_alone_and_comes_back_before_it():
    env, whole = make_vec_env(n_envs=4, workers=2), make_vec_env(n_envs=4)
    env.reset(), whole.reset()
    pid = env.workers._processes[1].pid
    os.kill(pid, signal.SIGSTOP)
    env.send(1, np.array([2, 2]))  # its worker sleeps
    for _ in range(3):
        env.send(0, np.array([3, 2]))
        first = env.receive(0)
        expected = whole.step(np.array([3, 2, -1, -1]))
        for k in range(3):
            np.testing.assert_array_equal(first[k], expected[k][:2])
    os.kill(pid, signal.SIGCONT)
    np.testing.assert_array_equal(env.receive(1)[0], whole.step(np.array([-1, -1, 2, 2]))[0][2:])
    env.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_halves_are_asked_for_in_order(workers):
    env = make_vec_env(n_envs=4, workers=workers)
    env.reset()
    with pytest.raises(UserError, match="no step to wait for"):
        env.receive(0)
    with pytest.raises(UserError, match="half=2 must be a whole number from 0 to 1"):
        env.send(2, np.zeros(2, int))
    with pytest.raises(UserError, match="need at least 2"):
        make_vec_env(n_envs=1).send(0, np.zeros(1, int))
    env.send(0, np.zeros(2, int))
    for forbidden in (
        lambda: env.send(0, np.zeros(2, int)),
        lambda: env.step(np.zeros(4, int)),
        env.reset,
        env.snapshot,
        env.objects,
    ):
        with pytest.raises(UserError, match="still under way"):
            forbidden()
    env.receive(0)
    env.step(np.zeros(4, int))
    env.close()
