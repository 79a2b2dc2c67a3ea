"""ALE's continuous actions: the same games as ale-py's own `continuous=True` plays."""

import ale_py
import gymnasium
import numpy as np

from reprl.envs import make_vec_env
from reprl.envs.joystick import Joystick, joystick_space
from tests.helpers import refuses

BREAKOUT = ["NOOP", "FIRE", "RIGHT", "LEFT"]


def test_a_stick_is_what_ale_takes_it_for() -> None:
    gymnasium.register_envs(ale_py)
    theirs = gymnasium.make("ALE/Breakout-v5", continuous=True).unwrapped
    assert joystick_space() == theirs.action_space
    order = [*BREAKOUT, *(a.name for a in map(ale_py.Action, range(18)) if a.name not in BREAKOUT)]
    space = joystick_space()
    space.seed(0)
    sticks = np.stack([space.sample() for _ in range(1000)])
    numbers, strengths = Joystick(BREAKOUT)(sticks)
    x, y = sticks[:, 0] * np.cos(sticks[:, 1]), sticks[:, 0] * np.sin(sticks[:, 1])
    for row in range(1000):
        wanted = theirs.map_action_idx(  # type: ignore[attr-defined]
            int(np.sign(x[row])) * int(abs(x[row]) > 0.5),
            int(np.sign(y[row])) * int(abs(y[row]) > 0.5),
            bool(sticks[row, 2] > 0.5),
        )
        assert order[numbers[row]] == ale_py.Action(wanted).name
    np.testing.assert_array_equal(strengths, sticks[:, 0])
    assert len(set(numbers.tolist())) == 18


def test_a_paddle_turns_as_fast_as_the_stick_is_pushed() -> None:
    places = []
    for radius in (0.6, 1.0):
        env = make_vec_env(n_envs=1, training=False, noop_max=0, continuous=True)
        env.reset()
        env.step(np.float32([[radius, 0.0, 0.0]]))
        box = env.objects()[0].boxes["paddle"]
        assert box is not None
        places.append(box.x)
    assert places[0] < places[1]


def test_sticks_go_on_from_a_snapshot_and_in_workers() -> None:
    space = joystick_space()
    space.seed(0)
    sticks = np.stack([[space.sample() for _ in range(2)] for _ in range(30)])
    sticks[5, 1] = np.nan  # leaves its environment alone
    seen = []
    for workers in (0, 2):
        env = make_vec_env(n_envs=2, workers=workers, continuous=True, sticky=0.25, size=36)
        env.reset()
        for stick in sticks[:15]:
            env.step(stick)
        snapshot = env.snapshot()
        for stick in sticks[15:]:
            last = env.step(stick)[0]
        env.restore(snapshot)
        for stick in sticks[15:]:
            again = env.step(stick)[0]
        np.testing.assert_array_equal(last, again)
        seen.append(last)
        env.close()
    np.testing.assert_array_equal(*seen)


def test_what_is_no_stick_is_said() -> None:
    env = make_vec_env(n_envs=2, continuous=True, size=36)
    env.reset()
    with refuses("2 x 3 numbers"):
        env.step_async(np.array([0, 1]))
    with refuses("continuous=True is ALE's", "CartPole-v1"):
        make_vec_env(game="gymnasium/CartPole-v1", n_envs=1, continuous=True)
