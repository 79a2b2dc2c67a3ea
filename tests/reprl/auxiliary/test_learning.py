"""A2C and PPO learn the toy game with every auxiliary configuration, same settings for all."""

import pytest

from reprl import components
from reprl.algorithms import A2C, PPO
from tests.toys.catch import SMALL_ENCODER, Catch, score

MARGIN = 0.7  # random play scores about -0.35, the best possible is about 0.9
ATTENTION = {"_target_": "reprl.encoders.masks.ConvMask"}
SHARED = {"learning_rate": 3e-3, "gamma": 0.95, "ent_coef": 0.01, "device": "cpu"}
ALGORITHMS = {
    "a2c": (A2C, 4000, {"n_steps": 5}),
    "ppo": (PPO, 4096, {"n_steps": 16, "batch_size": 128, "n_epochs": 3}),
}


@pytest.fixture(scope="module")
def random_score() -> float:
    return score(None, episodes=3000)


def test_the_game_pays_one_point_for_a_catch_and_takes_one_for_a_miss():
    game = Catch(2, stack=2, cut=False)
    game.reset()
    game.ball[:], game.paddle[:] = (6, 12), (12, 0)
    for step in range(4):
        frames, rewards, landed, infos = game.step([0, 0])
        assert landed.all() == (step == 3)
        assert rewards.tolist() == ([1.0, -1.0] if step == 3 else [0.0, 0.0])
    last = infos[0]["terminal_observation"]
    assert last.shape == frames[0].shape == (2, 36, 36)
    assert (last[-1, 30:, 12:18] == 255).all()  # the ball is drawn over the paddle
    assert (last[-1, 30:, 18:24] == 128).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "auxiliary",
    [name for name in components.names("auxiliary") if name != "object_target"],  # truth: not here
)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_it_learns(algorithm, auxiliary, random_score):
    agent, steps, settings = ALGORITHMS[algorithm]
    parts = {"encoder": SMALL_ENCODER, "attention": ATTENTION, "auxiliary": auxiliary}
    env = Catch(16, stack=2, cut=False)
    model = agent("CnnPolicy", env, seed=0, **parts, **SHARED, **settings).learn(steps)
    assert score(model) > random_score + MARGIN
