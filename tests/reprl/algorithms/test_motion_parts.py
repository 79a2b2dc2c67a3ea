"""Motion, hard masks and a mask's own optimizer in training: plain, fast, compiled, continued."""

from typing import Any

import pytest
import torch

from reprl import components
from reprl.algorithms import A2C, PPO, Captured, rebuild
from tests.helpers import refuses
from tests.reprl.algorithms.test_capture import CaptureAt, fingerprint
from tests.toys.catch import Catch

pytestmark = pytest.mark.slow  # trains

SMALL = {"n_steps": 8, "batch_size": 16, "n_epochs": 2}
NEAR = 0.05  # of the way: rounding alone
OWN = {"learning_rate": 0.01, "betas": [0.5, 0.9]}


def mask(name: str, **changes: Any) -> dict[str, Any]:
    return {**(components.resolve("attention", name) or {}), "resolution": 9, **changes}


PARTS: dict[str, dict[str, Any]] = {
    "differences": {"encoder": {"_target_": "reprl.encoders.Nature", "input": "differences"}},
    "both": {
        "encoder": {
            "_target_": "reprl.encoders.NaturePadded",
            "input": "both",
            "contrast": 9,
            "threshold": 4.0,
        },
        "attention": mask("conv_21"),
    },
    "motion": {"attention": mask("motion"), "auxiliary": "sparsity"},
    "taught": {
        "attention": mask("top_k", optimizer=OWN),
        "auxiliary": ["motion_target", "mask_entropy", "total_variation", "saliency_guided"],
    },
    "gumbel": {"attention": mask("gumbel"), "auxiliary": "motion_target"},
    "madi": {"attention": mask("madi", resolution=18), "augmentation": "boxes_lines"},
}


def make(kind: Any = PPO, **arguments: Any) -> Any:
    settings = SMALL if kind is PPO else {"n_steps": 4}
    return kind("CnnPolicy", Catch(), seed=3, device="cpu", **settings | arguments)


def parameters(model: Any) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.policy.parameters()])


@pytest.mark.parametrize("name", PARTS)
def test_fast_follows_plain(name: str) -> None:
    before = parameters(make(**PARTS[name]))
    plain = make(**PARTS[name]).learn(64)
    fast = make(mode="fast", compile=False, **PARTS[name]).learn(64)
    moved = (parameters(plain) - before).norm()
    assert moved > 0
    assert (parameters(plain) - parameters(fast)).norm() < NEAR * moved


@pytest.mark.parametrize("name", ["both", "gumbel"])
def test_compiled_follows_eager(name: str) -> None:
    before = parameters(make(**PARTS[name]))
    eager = make(mode="fast", compile=False, **PARTS[name]).learn(64)
    compiled = make(mode="fast", **PARTS[name]).learn(64)
    assert compiled.compiled is True
    moved = (parameters(eager) - before).norm()
    assert (parameters(compiled) - parameters(eager)).norm() < NEAR * moved


@pytest.mark.parametrize("mode", ["plain", "fast"])
@pytest.mark.parametrize("name", ["both", "taught", "gumbel", "madi"])
def test_they_continue_exactly(name: str, mode: str) -> None:
    at = CaptureAt(32)
    straight = make(mode=mode, compile=False, **PARTS[name]).learn(96, callback=at)
    captured: Any = at.captured
    assert captured is not None
    parts = [
        {k: v.contiguous().clone() for k, v in part.items()}
        for part in (captured.parameters, captured.optimizer, captured.state)
    ]
    other = rebuild(captured.meta, Catch())
    other.restore(Captured(*parts, meta=captured.meta))
    other.learn(64, reset_num_timesteps=False)
    assert fingerprint(other) == fingerprint(straight)


@pytest.mark.parametrize("name", ["motion_target", "saliency_guided", "mask_entropy"])
def test_beside_a_gumbel_mask_a_loss_of_weight_0_changes_nothing(name: str) -> None:
    spec = {**(components.resolve("auxiliary", name) or {}), "coef": 0.0}
    spec |= {key: 0.0 for key in spec if key.endswith("_coef")}
    alone = make(attention=mask("gumbel")).learn(64)
    beside = make(attention=mask("gumbel"), auxiliary=spec).learn(64)
    assert torch.equal(parameters(alone), parameters(beside))
    heard = make(attention=mask("gumbel"), auxiliary={**spec, "coef": 0.5}).learn(64)
    assert not torch.equal(parameters(alone), parameters(heard))


def test_a_gumbel_mask_draws_in_the_update_and_not_in_the_rollout() -> None:
    model = make(attention=mask("gumbel"))
    stream = model.policy.features_extractor.attention.hard.stream
    before = stream.clone()
    model.predict(Catch().reset())
    model.policy.set_training_mode(False)
    model.policy(torch.zeros(2, 4, 36, 36, dtype=torch.uint8))
    assert torch.equal(stream, before)
    model.learn(32)
    assert not torch.equal(stream, before)


# -- a mask's own optimizer settings ------------------------------------------------------------


def rates(model: Any) -> list[float]:
    return [group["lr"] for group in model.policy.optimizer.param_groups]


@pytest.mark.parametrize("mode", ["plain", "fast"])
def test_the_mask_has_its_rate_and_betas_and_the_rest_its_schedule(mode: str) -> None:
    falling = {"kind": "linear", "start": 1e-3, "end": 0.0}
    model = make(
        mode=mode, compile=False, learning_rate=falling, attention=mask("conv_21", optimizer=OWN)
    )
    model.learn(64)
    groups = model.policy.optimizer.param_groups
    assert [g["betas"] for g in groups] == [(0.9, 0.999), (0.5, 0.9)]
    assert rates(model)[1] == 0.01
    assert rates(model)[0] < 1e-3
    masks = {id(p) for p in model.policy.features_extractor.attention.parameters()}
    assert {id(p) for p in groups[1]["params"]} == masks
    everything = [p for g in groups for p in g["params"]]
    assert len(everything) == len({id(p) for p in everything})
    assert {id(p) for p in everything} == {id(p) for p in model.policy.parameters()}


def test_the_masks_steps_are_those_of_an_adam_of_its_own() -> None:
    """One step by hand: a first step of Adam is the rate times g / (|g| + epsilon)."""
    model = make(attention=mask("conv_21", optimizer={"learning_rate": 0.02}), learning_rate=1e-3)
    look = model.policy.features_extractor.attention
    before = {name: p.detach().clone() for name, p in model.policy.named_parameters()}
    model.n_epochs, model.batch_size = 1, 32  # one minibatch a rollout
    model.learn(32)
    inside = {id(p) for p in look.parameters()}
    for name, parameter in model.policy.named_parameters():
        rate, slope = 0.02 if id(parameter) in inside else 1e-3, parameter.grad
        expected = before[name] - rate * slope / (slope.abs() + 1e-5)  # SB3's epsilon
        assert torch.allclose(parameter, expected, atol=1e-6), name


@pytest.mark.parametrize("kind", ["rmsprop", "rmsprop_tf"])
def test_rmsprop_takes_a_rate_and_no_betas(kind: str) -> None:
    model = make(A2C, optimizer=kind, attention=mask("conv_21", optimizer={"learning_rate": 0.01}))
    model.learn(32)
    assert rates(model) == [pytest.approx(7e-4), 0.01]
    with refuses("attention.optimizer.betas"):
        make(A2C, optimizer=kind, attention=mask("conv_21", optimizer=OWN))


def test_without_settings_there_is_one_group() -> None:
    assert len(make(attention=mask("conv_21")).policy.optimizer.param_groups) == 1
    empty = {"learning_rate": None, "betas": None}
    model = make(attention=mask("conv_21", optimizer=empty))
    assert len(model.policy.optimizer.param_groups) == 1


@pytest.mark.parametrize(
    ("optimizer", "named"),
    [
        ({"lerning_rate": 0.1}, "'learning_rate'"),
        ({"learning_rate": 0}, "attention.optimizer.learning_rate=0"),
        ({"learning_rate": "fast"}, "attention.optimizer.learning_rate=fast"),
        ({"betas": [0.9]}, "attention.optimizer.betas="),
        ({"betas": [0.9, 1.0]}, "attention.optimizer.betas="),
        ({"betas": 0.9}, "attention.optimizer.betas=0.9"),
    ],
)
def test_wrong_settings_are_refused(optimizer: dict[str, Any], named: str) -> None:
    with refuses(named):
        make(attention=mask("conv_21", optimizer=optimizer))
