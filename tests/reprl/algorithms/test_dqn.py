"""DQN: SB3's bits without extras, double targets by hand, and a replay buffer that comes back."""

from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from torch.nn import functional as F

from reprl.algorithms import DQN, rebuild
from reprl.envs import make_vec_env
from tests.helpers import refuses
from tests.toys.catch import Catch

SMALL: dict[str, Any] = {"buffer_size": 200, "learning_starts": 20, "batch_size": 16, "seed": 3}
SMALL |= {"target_update_interval": 24, "device": "cpu", "exploration_fraction": 0.5}


def env(n_envs: int = 2) -> Any:
    return make_vec_env(game="gymnasium/CartPole-v1", n_envs=n_envs, seed=3)


def same(a: Any, b: Any) -> bool:
    pairs = zip(a.policy.state_dict().values(), b.policy.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("n_steps", [1, 3])
def test_it_is_sb3s_bit_for_bit(n_steps: int) -> None:
    stock = stable_baselines3.DQN("MlpPolicy", env(), n_steps=n_steps, **SMALL).learn(160)
    spec = {"_target_": "reprl.encoders.Mlp", "separate": True, "activation": "relu"}
    ours = DQN("MlpPolicy", env(), n_steps=n_steps, encoder=spec, **SMALL).learn(160)
    plain = DQN("MlpPolicy", env(), n_steps=n_steps, **SMALL).learn(160)
    assert same(stock, plain)
    assert same(stock, ours)


def test_double_targets_are_valued_by_the_other_network() -> None:
    model = DQN("MlpPolicy", env(), double=True, **SMALL).learn(80)
    assert model.replay_buffer is not None
    state = np.random.get_state()
    batch = model.replay_buffer.sample(16)
    np.random.set_state(state)
    with torch.no_grad():
        values, others = (
            model.q_net(batch.next_observations),
            model.q_net_target(batch.next_observations),
        )
        following = torch.stack([others[i, values[i].argmax()] for i in range(16)])[:, None]
        targets = batch.rewards + (1 - batch.dones) * 0.99 * following
        chosen = model.q_net(batch.observations).gather(1, batch.actions.long())
        expected = F.smooth_l1_loss(chosen, targets).item()
    model.train(1, 16)
    assert model.logger.name_to_value["train/loss"] == pytest.approx(expected, rel=1e-6)


def test_a_restored_model_goes_on_bit_for_bit() -> None:
    whole = DQN("MlpPolicy", env(), double=True, **SMALL)
    whole.learn(80)
    captured = whole.capture()
    whole.learn(80, reset_num_timesteps=False)
    again = rebuild(captured.meta, env())
    again.restore(captured)
    again.learn(80, reset_num_timesteps=False)
    assert same(whole, again)
    assert whole.exploration_rate == again.exploration_rate


def test_it_plays_greedily_but_for_its_last_epsilon() -> None:
    model = DQN("MlpPolicy", env(), exploration_final_eps=0.1, **SMALL)
    outputs, _ = model.player().outputs(np.zeros((3, 4), np.float32), ())
    assert sorted(outputs.probs[0].round(6)) == [0.05, 0.95]


def test_what_it_has_not_is_said() -> None:
    with refuses("DQN", "attention"):
        DQN("MlpPolicy", env(), attention="conv", **SMALL)
    with refuses("DQN", "mode=plain"):
        DQN("MlpPolicy", env(), mode="fast", **SMALL)
    with refuses("algo.buffer_size", "GB"):
        DQN("CnnPolicy", Catch(), **SMALL | {"buffer_size": 100_000_000})
