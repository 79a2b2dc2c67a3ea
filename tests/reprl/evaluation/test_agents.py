"""Agents: sampling by hand-computed numbers, rounding that does not depend on the company."""

import random
from types import SimpleNamespace

import gymnasium
import numpy as np
import pandas as pd
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

from reprl.envs import ScriptedAgent, make_vec_env
from reprl.evaluation import (
    ModelAgent,
    RandomAgent,
    ScriptedPlayer,
    as_agent,
    evaluate,
    evaluate_model,
    mean_scores,
)
from reprl.evaluation.evaluate import env_settings
from reprl.policy import FORWARD_BATCH, sample_actions
from tests.helpers import refuses


def test_sampled_actions_by_hand():
    chances = np.array([[0.2, 0.3, 0.0, 0.5]] * 5)
    drawn = sample_actions(chances, np.array([0.0, 0.19, 0.2, 0.49, 0.999999]))
    assert drawn.tolist() == [0, 0, 1, 1, 3]
    # Rounding of float32 must never lead past the last action, or to one of probability zero.
    assert sample_actions(np.array([[0.1, 0.2, 0.0]]), np.array([1 - 2**-53])).tolist() == [1]


def test_random_agent_is_uniform():
    uniforms = np.linspace(0, 1, 6000, endpoint=False)
    actions = RandomAgent(6).act(None, None, uniforms, [])
    assert np.bincount(actions).tolist() == [1000] * 6


def test_probabilities_do_not_depend_on_the_rest_of_the_batch():
    """Stock SB3's NatureCNN: alone, in company, at another place, in a longer list."""
    agent = ModelAgent(PPO("CnnPolicy", make_vec_env(n_envs=1), seed=0, n_steps=2, device="cpu"))
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (2 * FORWARD_BATCH + 3, 4, 84, 84), dtype=np.uint8)
    together = agent.probabilities(pictures)
    for row in (0, 7, FORWARD_BATCH - 1, FORWARD_BATCH, len(pictures) - 1):
        np.testing.assert_array_equal(
            agent.probabilities(pictures[row : row + 1])[0], together[row]
        )
    order = rng.permutation(len(pictures))
    np.testing.assert_array_equal(agent.probabilities(pictures[order]), together[order])
    with torch.no_grad():  # and they are the policy's own
        expected = agent.policy.get_distribution(torch.as_tensor(pictures)).distribution.probs
    np.testing.assert_allclose(together, expected.numpy(), rtol=1e-5)


def states():
    kind, keys, *rest = np.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), (kind, keys.tolist(), *rest)


def test_evaluation_during_training_leaves_no_trace(model):
    model.policy.set_training_mode(True)
    before = states()
    games = evaluate_model(model, ["original", "green_lines@1"], 2, seed=5)
    assert states() == before
    assert model.policy.training
    model.policy.set_training_mode(False)
    torch.rand(3), np.random.rand(3)
    again = evaluate_model(model, ["original", "green_lines@1"], 2, seed=5)
    pd.testing.assert_frame_equal(again, games)
    first = mean_scores(games)
    assert set(first) == {"validation/original", "validation/green_lines@1", "validation/score"}
    frame = evaluate(model, ["original", "green_lines@1"], 2, seed=5, games="shared")
    by_hand = [frame["episode_return"][:2].mean(), frame["episode_return"][2:].mean()]
    assert [first["validation/original"], first["validation/green_lines@1"]] == by_hand
    assert first["validation/score"] == np.mean(by_hand)
    assert evaluate_model(model, "original", 2, seed=5, stopped=lambda: True) is None


def test_greedy_games_are_counted_once_per_copy(model):
    frame = evaluate(model, "original", 6, deterministic=True)
    assert frame["deterministic"].all()
    distinct = frame.attrs["distinct"]["original"]
    assert 1 <= distinct <= 6
    assert distinct >= frame["episode_return"].nunique()
    constant = SimpleNamespace(
        labels=RandomAgent().labels,
        deterministic=True,
        act=lambda observations, *_: np.zeros(len(observations), np.int64),
    )
    frame = evaluate(constant, "original", 6, size=36, stack=1)
    assert frame.attrs["distinct"]["original"] <= 4
    assert frame["length"].nunique() > frame.attrs["distinct"]["original"]  # no-op starts differ


@pytest.mark.parametrize("validate", [True, False])
def test_a_diverged_policy_is_named(model, validate, monkeypatch):
    """torch.compile turns the validation of distributions off for the whole process."""
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", validate)
    broken = SimpleNamespace(policy=model.policy, predict=None, num_timesteps=0, seed=None)
    weight = model.policy.action_net.weight
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.fill_(float("nan"))
        with refuses("probabilities"):
            evaluate(broken, "original", 1, size=36, stack=2)
    finally:
        with torch.no_grad():
            weight.copy_(kept)


def test_agents_that_cannot_be_sampled_or_played():
    greedy_only = SimpleNamespace(policy=SimpleNamespace(), predict=None)
    with refuses("deterministic=True"):
        as_agent(greedy_only)
    with refuses("cannot be evaluated"):
        as_agent("ppo")
    with refuses("episodes=0"):
        evaluate(RandomAgent(), "original", 0)


def test_scripted_players_are_named_as_the_analysis_knows_them():
    from reprl.naming import is_baseline

    names = [
        ScriptedPlayer(agent).labels["method"]
        for agent in (ScriptedAgent(), ScriptedAgent(0.5, ("paddle", "ball")))
    ]
    assert names == ["scripted", "scripted skill=0.5 blind_to=ball+paddle"]
    assert all(map(is_baseline, [*names, RandomAgent().labels["method"]]))


def test_scripted_games_are_paired_and_repeatable():
    first = evaluate(ScriptedAgent(0.3), ["original", "green_lines"], 2, n_envs=4, size=36)
    again = evaluate(ScriptedAgent(0.3), ["green_lines", "original"], 2, n_envs=1, size=36)
    values = first.set_index(["variant", "episode"])["length"]
    assert values.equals(again.set_index(["variant", "episode"])["length"].reindex(values.index))
    assert (values["original"] == values["green_lines"]).all()  # it sees the truth on both
    assert values["original"].nunique() == 2


class Pictures(gymnasium.Env):
    """Pictures of nothing: an environment that is no game."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


def test_a_stock_model_plays_the_game_of_its_environment_or_is_refused(tmp_path):
    freeway = VecFrameStack(make_atari_env("ALE/Freeway-v5", n_envs=1), 4)
    model = PPO("CnnPolicy", freeway, n_steps=2, seed=3, device="cpu")
    assert env_settings(model)["game"] == "freeway"
    games = evaluate(model, "original", 1, frame_limit=400)
    assert list(games["end"]) == ["frame_limit"]
    assert set(games["method"]) == {"freeway-sb3-ppo"}  # as a run of that game is called
    model.save(tmp_path / "model.zip")
    with refuses("3 actions", "breakout", "game="):
        evaluate(PPO.load(tmp_path / "model.zip", device="cpu"), "original", 1)
    stranger = PPO("CnnPolicy", Pictures(), n_steps=2, device="cpu")
    with refuses("PPO", "without an id"):
        evaluate(stranger, "original", 1)
    with refuses("PPO", "uint8"):
        evaluate(PPO("MlpPolicy", "CartPole-v1", n_steps=2, device="cpu"), "original", 1)
