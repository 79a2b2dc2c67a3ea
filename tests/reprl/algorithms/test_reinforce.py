"""REINFORCE: hand-worked returns of whole games; unfinished ones do not move the gradient."""

from typing import Any

import numpy as np
import torch

from reprl.algorithms import Reinforce
from reprl.algorithms.reinforce import finished_returns
from reprl.config.compose import compose
from reprl.envs import make_vec_env
from tests.helpers import refuses


def made(**settings: Any) -> Reinforce:
    env = make_vec_env(game="gymnasium/CartPole-v1", n_envs=4, seed=1)
    return Reinforce("MlpPolicy", env, n_steps=64, seed=1, device="cpu", **settings)


def test_returns_by_hand() -> None:
    rewards = np.array([[1.0, 1.0], [2.0, 1.0], [4.0, 1.0], [8.0, 1.0]])
    starts = np.array([[1, 1], [0, 0], [1, 0], [0, 0]], bool)  # env 0 ends after two steps
    returns, ended = finished_returns(rewards, starts, np.array([False, True]), 0.5)
    assert returns[:2, 0].tolist() == [2.0, 2.0]
    assert ended[:, 0].tolist() == [True, True, False, False]  # the second game goes on
    assert returns[:, 1].tolist() == [1.875, 1.75, 1.5, 1.0]
    assert ended[:, 1].all()


def test_the_gradient_is_that_of_the_finished_games_alone() -> None:
    model = made(baseline=False, ent_coef=0.0)  # the bare return: nothing is subtracted
    model.learn(256)
    before = [p.detach().clone() for p in model.policy.parameters()]
    memory = model.rollout_buffer
    model.collect_rollouts(model.env, _Silent(), memory, model.n_steps)  # type: ignore[arg-type]
    starts = memory.episode_starts.astype(bool)
    assert memory.raw_rewards is not None
    assert memory.last_starts is not None
    returns, ended = finished_returns(memory.raw_rewards, starts, memory.last_starts, 0.99)
    assert 0 < ended.sum() < ended.size
    seen = torch.as_tensor(memory.observations[ended])
    taken = torch.as_tensor(memory.actions[ended]).long().flatten()
    log_probs = model.policy.get_distribution(seen).log_prob(taken)
    expected = -(torch.as_tensor(returns[ended], dtype=torch.float32) * log_probs).mean()
    wanted = torch.autograd.grad(expected, model.policy.action_net.weight)[0]
    (minibatch,) = memory.minibatches(None)
    losses = model.update.losses(
        model, minibatch, minibatch.actions.long().flatten(), {}, dict, model.num_timesteps
    )
    model.policy.optimizer.zero_grad()
    losses.total.backward()
    torch.testing.assert_close(model.policy.action_net.weight.grad, wanted, rtol=1e-4, atol=1e-6)
    value = model.policy.value_net.weight.grad
    assert value is None or not value.any()  # without a baseline nothing is fitted to it
    assert all(torch.equal(a, b) for a, b in zip(before, model.policy.parameters(), strict=True))


def test_normalising_goes_with_the_baseline_unless_asked_for() -> None:
    for baseline in (True, False):
        assert made(baseline=baseline).rollout_buffer.normalize is baseline
        for asked in (True, False):
            model = made(baseline=baseline, normalize_advantage=asked)
            assert model.rollout_buffer.normalize is asked
    with refuses("normalize_advantage=3", "true or false"):
        made(normalize_advantage=3)


def test_the_experiment_is_what_it_was() -> None:
    """With a baseline, normalised: as before the two were told apart."""
    algo = compose(["experiment=cartpole_reinforce"])["algo"]
    assert algo["baseline"] is True
    assert algo["normalize_advantage"] is None
    env = make_vec_env(game="gymnasium/CartPole-v1", n_envs=4, seed=1)
    spec = {k: v for k, v in algo.items() if k != "_target_"} | {"n_steps": 64}
    model = Reinforce("MlpPolicy", env, seed=1, device="cpu", **spec)
    model.learn(256)
    memory = model.rollout_buffer
    assert memory.normalize
    known = memory.advantages.reshape(4, 64).T[memory.ended]
    assert abs(known.mean()) < 1e-4
    assert abs(known.std() * memory.ended.mean() - 1) < 1e-3


def test_the_baseline_is_learned() -> None:
    model = made(baseline=True)
    before = model.policy.value_net.weight.detach().clone()
    model.learn(256)
    assert not torch.equal(before, model.policy.value_net.weight)


def test_fast_mode_is_refused() -> None:
    with refuses("algo=reinforce", "mode=plain"):
        made(mode="fast")


class _Silent:
    """A callback that hears nothing."""

    def on_rollout_start(self) -> None: ...

    def on_rollout_end(self) -> None: ...

    def on_step(self) -> bool:
        return True

    def update_locals(self, _: Any) -> None: ...
