"""encoder.init: the distributions it names, in every encoder and network; what it leaves alone."""

import math
from typing import Any

import gymnasium
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import Tensor, nn

from reprl import checkpoint
from reprl.algorithms import DQN, PPO, SAC, TD3, rebuild
from reprl.config.schema import load
from reprl.encoders.initialisation import KeepsOwnWeights, first_weights
from reprl.naming import is_plain
from reprl.rng import torch_stream
from reprl.runs.warm_start import take_share
from tests.helpers import refuses
from tests.reprl.algorithms.test_capture import CaptureAt, fingerprint
from tests.runs import TINY
from tests.toys.catch import Catch

KINDS = ("orthogonal", "he", "xavier")
SMALL: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "n_epochs": 1, "device": "cpu", "seed": 5}
NATURE: dict[str, Any] = {"_target_": "reprl.encoders.Nature", "features_dim": 64}


def agent(kind: str | None = None, *, encoder: Any = None, **more: Any) -> PPO:
    spec = {**(encoder or NATURE), **({} if kind is None else {"init": kind})}
    return PPO("CnnPolicy", Catch(2), encoder=spec, **SMALL | more)


def layers(module: nn.Module) -> dict[str, Any]:
    return {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Conv2d | nn.Linear)
    }


def rows_of(weight: Tensor) -> Tensor:
    """A layer's weights as a matrix with no more rows than columns."""
    flat = weight.detach().flatten(1).double()
    return flat if flat.shape[0] <= flat.shape[1] else flat.T


def require(kind: str, weight: Tensor, gain: float, name: str) -> None:
    """Hold one layer to the distribution that a kind names."""
    out, inputs = weight.shape[0], weight[0].numel()
    receptive = weight[0, 0].numel()
    flat = weight.detach().double().flatten()
    if kind == "orthogonal":
        rows = rows_of(weight)
        expected = gain**2 * torch.eye(len(rows), dtype=torch.float64)
        torch.testing.assert_close(rows @ rows.T, expected, atol=1e-5, rtol=1e-4, msg=name)
        return
    if kind == "he":
        variance = gain**2 / inputs
    else:
        variance = gain**2 * 2 / (inputs + out * receptive)
        assert flat.abs().max() <= math.sqrt(3 * variance) * (1 + 1e-6), name
    error = 5 * math.sqrt(2 / len(flat))  # five deviations of a normal sample's variance
    assert abs(flat.square().mean().item() / variance - 1) < error, name
    if kind == "he" and len(flat) > 1000:
        assert flat.abs().max() > 2 * math.sqrt(variance), name  # normal: a uniform one ends at 1.7


def test_the_default_is_sb3s_bit_for_bit() -> None:
    plain, said = agent().learn(32), agent("sb3").learn(32)  # each draws from the global streams
    stock = PPO(
        "CnnPolicy",
        Catch(2),
        policy_kwargs={"features_extractor_kwargs": {"features_dim": 64}},
        **SMALL,
    ).learn(32)
    theirs = stock.policy.state_dict()
    for model in (plain, said):
        for name, tensor in model.policy.state_dict().items():
            assert torch.equal(tensor, theirs[name]), name


GAIN = {"orthogonal": math.sqrt(2), "he": math.sqrt(2), "xavier": 1.0}
ENCODERS: dict[str, dict[str, Any]] = {
    "nature": NATURE,
    "nature_padded": {"_target_": "reprl.encoders.NaturePadded", "features_dim": 32},
    "impala": {"_target_": "reprl.encoders.Impala", "features_dim": 32},
    "xresnet": {
        "_target_": "reprl.encoders.XResNet",
        "features_dim": 32,
        "separable": True,
        "self_attention": True,
    },
    "own": {"_target_": "tests.toys.catch.SmallEncoder"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ENCODERS)
def test_every_layer_of_every_encoder_is_drawn_anew(kind: str, name: str) -> None:
    before, after = agent(encoder=ENCODERS[name]), agent(kind, encoder=ENCODERS[name])
    was = layers(before.policy)
    for place, layer in layers(after.policy).items():
        assert not torch.equal(layer.weight, was[place].weight), place
        gain = {"action_net": 0.01, "value_net": 1.0}.get(place, GAIN[kind])
        if name == "impala" and ".net." in place:
            gain = 1.0  # of a residual branch
        require(kind, layer.weight, gain, place)
        assert layer.bias is None or not layer.bias.any(), place
    for place, buffer in after.policy.named_parameters():
        if "bias" not in place and place.removesuffix(".weight") not in was:
            assert torch.equal(buffer, dict(before.policy.named_parameters())[place]), place


def test_nothing_else_begins_otherwise() -> None:
    """Masks keep their own weights, and the global generators stand where they stood."""
    states = []
    for kind in (None, "he"):
        model = agent(kind, attention="conv")
        states.append(torch.get_rng_state())
        mask = model.policy.features_extractor.attention
        assert isinstance(mask, KeepsOwnWeights)
        states.append(torch.cat([p.detach().flatten() for p in mask.parameters()]))
    assert torch.equal(states[0], states[2])
    assert torch.equal(states[1], states[3])


def test_a_seed_gives_the_same_weights_and_another_others() -> None:
    first, again, other = agent("he"), agent("he"), agent("he", seed=6)
    assert fingerprint(first) == fingerprint(again)
    weights = [m.policy.action_net.weight for m in (first, other)]
    assert not torch.equal(*weights)


def test_q_networks_and_their_copies_begin_alike() -> None:
    encoder = NATURE | {"init": "orthogonal"}
    replay: dict[str, Any] = {"buffer_size": 16, "device": "cpu", "seed": 5}
    model = DQN("CnnPolicy", Catch(2), encoder=encoder, dueling=True, **replay)
    for place, layer in layers(model.policy.q_net).items():
        last = place in ("q_net.value.2", "q_net.advantage.2")
        require("orthogonal", layer.weight, 1.0 if last else math.sqrt(2), place)
    copied = model.policy.q_net_target.state_dict()
    for name, tensor in model.policy.q_net.state_dict().items():
        assert torch.equal(tensor, copied[name]), name


@pytest.mark.parametrize("cls", [SAC, TD3])
def test_actors_and_critics_are_drawn_apart(cls: Any) -> None:
    env = DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")])
    encoder = {"_target_": "reprl.encoders.Mlp", "hidden": [64, 64], "separate": True, "init": "he"}
    model = cls("MlpPolicy", env, encoder=encoder, buffer_size=16, device="cpu", seed=5)
    policy: Any = model.policy
    for place, layer in layers(policy.actor).items():
        head = place in ("mu", "log_std", "mu.4")
        require("he", layer.weight, 0.01 if head else math.sqrt(2), place)
    for place, layer in layers(policy.critic).items():
        require("he", layer.weight, 1.0 if place.endswith(".4") else math.sqrt(2), place)
    first, second = (dict(policy.critic.named_parameters())[f"qf{k}.0.weight"] for k in (0, 1))
    assert not torch.equal(first, second)
    copied = policy.critic_target.state_dict()
    for name, tensor in policy.critic.state_dict().items():
        assert torch.equal(tensor, copied[name]), name


def test_it_continues_bit_for_bit_and_a_parents_weights_are_taken() -> None:
    at = CaptureAt(16)
    whole = agent("he").learn(32, callback=at)
    assert at.captured is not None
    again = rebuild(at.captured.meta, Catch(2, seed=9))
    again.restore(at.captured)
    again.learn(16, reset_num_timesteps=False)
    assert fingerprint(again) == fingerprint(whole)
    assert again.specs.encoder["init"] == "he"


def test_a_parents_weights_take_the_place_of_first_ones(tmp_path: Any) -> None:
    parent, child = agent(seed=1), agent("he")
    checkpoint.save(parent, tmp_path)
    take_share(child, checkpoint.read(tmp_path), "encoder")
    theirs = parent.policy.features_extractor.state_dict()
    for name, tensor in child.policy.features_extractor.state_dict().items():
        assert torch.equal(tensor, theirs[name]), name


def test_a_run_is_named_after_it() -> None:
    plain, he = load(TINY), load([*TINY, "encoder.init=he"])
    assert he.method == "ppo-nature_he"
    assert load([*TINY, "encoder.init=sb3"]).method == plain.method == "ppo-nature"
    assert is_plain(plain.plain())
    assert not is_plain(he.plain())
    assert load([*TINY, "encoder.init=he", "encoder.freeze=true"]).method == "ppo-nature_he_frozen"
    with refuses("encoder.init=hee", "orthogonal", "'he'"):
        load([*TINY, "encoder.init=hee"])
    with refuses("encoder.init=kaiming", "xavier"):
        agent("kaiming")


def test_weights_by_hand() -> None:
    """A layer of 8 outputs and 2 x 3 x 3 inputs: fan_in 18, fan_out 72."""
    shape, generator = torch.Size((8, 2, 3, 3)), torch_stream(0, "test")
    draws = {
        k: torch.stack([first_weights(shape, k, 2.0, generator) for _ in range(400)]) for k in KINDS
    }
    rows = draws["orthogonal"][0].flatten(1)
    torch.testing.assert_close(rows @ rows.T, 4 * torch.eye(8), atol=1e-5, rtol=0)
    assert draws["he"].var().item() == pytest.approx(4 / 18, rel=0.02)
    assert draws["xavier"].var().item() == pytest.approx(4 * 2 / 90, rel=0.02)
    assert draws["xavier"].abs().max().item() == pytest.approx(2 * math.sqrt(6 / 90), rel=0.01)
