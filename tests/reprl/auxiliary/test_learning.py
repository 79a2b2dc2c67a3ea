"""A2C and PPO learn the toy game with every auxiliary configuration, same settings for all."""

import pytest
import torch

from reprl import components
from reprl.algorithms import A2C, PPO
from tests.toy import Catch, catch_env, score

SEEDS = (0, 1, 2)
MARGIN = 0.7  # random play scores about -0.35, the best possible is about 0.9
ENCODER = {"_target_": "tests.toy.SmallEncoder"}
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
    game = Catch()
    for paddle, expected in ((game_start := 12, 1.0), (0, -1.0)):
        game.reset(seed=0)
        game.ball, game.paddle = game_start, paddle
        rewards, landed = [], False
        while not landed:
            frames, reward, landed, _, _ = game.step(0)
            rewards.append(reward)
        assert rewards[:-1] == [0.0] * (len(rewards) - 1)
        assert rewards[-1] == expected
        assert frames.shape == (2, 36, 36)
        assert (frames[-1] == 255).any()  # the ball is drawn over the paddle


@pytest.mark.slow
@pytest.mark.parametrize("auxiliary", components.names("auxiliary"))
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_it_learns(algorithm, auxiliary, random_score):
    agent, steps, settings = ALGORITHMS[algorithm]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the networks are too small to share
    scores = []
    for seed in SEEDS:
        model = agent(
            "CnnPolicy",
            catch_env(16, seed=seed),
            encoder=ENCODER,
            attention=ATTENTION,
            auxiliary=auxiliary,
            seed=seed,
            **SHARED,
            **settings,
        )
        model.learn(steps)
        scores.append(round(score(model), 2))
    torch.set_num_threads(threads)
    print(f"{algorithm} {auxiliary}: {scores}, random {random_score:.2f}")
    assert min(scores) > random_score + MARGIN, scores
