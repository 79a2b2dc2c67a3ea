"""CartPole without velocities: the very game, with two of its four numbers."""

import gymnasium
import numpy as np

from reprl.envs.gymnasium_ids import require_known


def test_positions_are_those_of_the_whole_game():
    require_known("reprl/CartPolePositions-v0")  # known from its id alone
    whole, cut = (gymnasium.make(i) for i in ("CartPole-v1", "reprl/CartPolePositions-v0"))
    seen, shown = whole.reset(seed=3)[0], cut.reset(seed=3)[0]
    rng, ended = np.random.default_rng(0), False
    while not ended:
        assert cut.observation_space.contains(shown)
        np.testing.assert_array_equal(shown, seen[[0, 2]])
        action = int(rng.integers(2))
        (seen, *rest), (shown, *others) = whole.step(action), cut.step(action)
        assert rest[:3] == others[:3]
        ended = rest[1] or rest[2]
