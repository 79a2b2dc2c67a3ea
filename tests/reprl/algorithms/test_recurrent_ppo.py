"""Recurrent PPO: sb3-contrib's bits, a memory that comes back, and play that carries it."""

from typing import Any

import numpy as np
import sb3_contrib
import torch

from reprl.algorithms import RecurrentPPO, rebuild
from reprl.envs import make_vec_env
from tests.helpers import refuses
from tests.toys.catch import Catch

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "seed": 3, "device": "cpu"}
MLP = {"_target_": "reprl.encoders.Mlp", "separate": True}


def env() -> Any:
    return make_vec_env(game="gymnasium/CartPole-v1", n_envs=2, seed=3)


def same(a: Any, b: Any) -> bool:
    pairs = zip(a.policy.state_dict().values(), b.policy.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def test_it_is_sb3_contribs_bit_for_bit() -> None:
    kwargs = {"lstm_hidden_size": 8}
    stock = sb3_contrib.RecurrentPPO("MlpLstmPolicy", env(), policy_kwargs=kwargs, **SMALL)
    stock.learn(96)
    ours = RecurrentPPO("MlpPolicy", env(), encoder=MLP, lstm_size=8, **SMALL).learn(96)
    assert same(stock, ours)


def test_a_restored_model_goes_on_bit_for_bit() -> None:
    whole = RecurrentPPO("MlpPolicy", env(), encoder=MLP, lstm_size=8, **SMALL)
    whole.learn(64)
    captured = whole.capture()
    assert captured.state["memory.hidden_pi"].abs().sum() > 0
    whole.learn(64, reset_num_timesteps=False)
    again = rebuild(captured.meta, env())
    again.restore(captured)
    again.learn(64, reset_num_timesteps=False)
    assert same(whole, again)


def test_a_gru_in_its_place_goes_on_and_plays_as_its_policy_does() -> None:
    model = RecurrentPPO("MlpPolicy", env(), encoder=MLP, memory="gru", lstm_size=8, **SMALL)
    model.learn(32)
    assert isinstance(model.policy.lstm_actor, torch.nn.GRU)
    assert model.policy.lstm_actor.weight_hh_l0.shape == (24, 8)
    moved = {id(p) for group in model.policy.optimizer.param_groups for p in group["params"]}
    assert moved == {id(p) for p in model.policy.parameters()}
    captured = model.capture()
    model.learn(32, reset_num_timesteps=False)
    again = rebuild(captured.meta, env())
    again.restore(captured)
    again.learn(32, reset_num_timesteps=False)
    assert same(model, again)
    seen = np.random.default_rng(0).random((2, 3, 4)).astype(np.float32)
    player, reference = model.player(), torch.nn.GRU(4, 8)
    reference.load_state_dict(model.policy.lstm_actor.state_dict())
    _, state = player.outputs(seen[0], player.initial_state(3))
    _, state = player.outputs(seen[1], state)
    with torch.no_grad():
        hidden = reference(torch.as_tensor(seen))[1]  # torch's own, over both steps at once
    torch.testing.assert_close(state[0][:, 0], hidden[0])
    assert not state[1].any()


def test_play_carries_the_state_as_the_policy_does() -> None:
    model = RecurrentPPO("MlpPolicy", env(), encoder=MLP, lstm_size=8, **SMALL)
    player, seen = model.player(), np.random.default_rng(0).random((5, 3, 4)).astype(np.float32)
    state, zero = player.initial_state(3), torch.zeros(1, 3, 8)
    theirs, starts = (zero, zero), torch.zeros(3)
    for t in range(5):
        begin = np.array([False, t == 2, False])
        outputs, state = player.outputs(seen[t], state, begin)
        keep = torch.as_tensor(~begin, dtype=torch.float32).view(1, 3, 1)
        theirs = (theirs[0] * keep, theirs[1] * keep)
        with torch.no_grad():
            wanted, theirs = model.policy.get_distribution(torch.as_tensor(seen[t]), theirs, starts)
        probs = wanted.distribution.probs  # type: ignore[union-attr]
        np.testing.assert_allclose(outputs.probs, probs.numpy(), rtol=1e-5)
    assert not np.allclose(outputs.probs, player.outputs(seen[4], player.initial_state(3))[0].probs)


def test_a_mask_stands_before_the_memory() -> None:
    model = RecurrentPPO(
        "CnnPolicy", Catch(), encoder="nature", attention="conv", lstm_size=8, **SMALL
    )
    model.learn(64)
    player = model.player()
    outputs, _ = player.outputs(model.env.reset(), player.initial_state(4))  # type: ignore[union-attr]
    assert outputs.attention is not None
    assert outputs.attention.shape[0] == 4


def test_what_it_has_not_is_said() -> None:
    with refuses("auxiliary=none", "pictures"):
        RecurrentPPO("MlpPolicy", env(), encoder=MLP, auxiliary="contrastive", **SMALL)
    with refuses("RecurrentPPO", "mode=plain"):
        RecurrentPPO("MlpPolicy", env(), mode="fast", **SMALL)
