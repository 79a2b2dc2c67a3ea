"""PPG and IDAAC in the fast mode: plain mode's training within rounding, and resumed exactly."""

from typing import Any

import pytest
import torch

from reprl.algorithms import IDAAC, PPG, rebuild
from tests.reprl.algorithms.test_capture import CaptureAt, fingerprint
from tests.toys.catch import SMALL_ENCODER, Catch

MASK = {"_target_": "reprl.encoders.masks.ConvMask"}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ppg": (PPG, {"n_policy_phases": 2, "auxiliary_epochs": 2, "auxiliary_batch_size": 20}),
    "ppg apart": (
        PPG,
        {
            "n_policy_phases": 3,
            "auxiliary_epochs": 1,
            "auxiliary_batch_size": 32,
            "value_epochs": 2,
        },
    ),
    "idaac": (IDAAC, {"value_epochs": 3, "order_coef": 0.1}),
    "daac": (IDAAC, {"value_epochs": 1, "order_coef": 0.0}),
    "curious": (
        PPG,
        {
            "n_policy_phases": 2,
            "auxiliary_epochs": 1,
            "auxiliary_batch_size": 32,
            "intrinsic": {"_target_": "reprl.intrinsic.RND", "width": 16},
        },
    ),
    "curious apart": (
        IDAAC,
        {"value_epochs": 3, "intrinsic": {"_target_": "reprl.intrinsic.RND", "width": 16}},
    ),
    "masked": (IDAAC, {"value_epochs": 2, "attention": MASK, "auxiliary": "sparsity"}),
}


def made(name: str, **mode: Any) -> Any:
    kind, more = KINDS[name]
    common = {"encoder": SMALL_ENCODER, "n_steps": 8, "batch_size": 16, "learning_rate": 1e-3}
    return kind("CnnPolicy", Catch(), seed=3, device="cpu", **common, **more, **mode)


def parameters(model: Any) -> torch.Tensor:
    found = [p.detach().flatten() for m in model.modules().values() for p in m.parameters()]
    return torch.cat(found)


def held(name: str, **fast: Any) -> None:
    first = parameters(made(name))
    plain, other = made(name).learn(160), made(name, mode="fast", **fast).learn(160)
    assert other.compiled is fast.get("compile", True)
    moved, apart = parameters(plain) - first, parameters(plain) - parameters(other)
    assert moved.abs().max() > 5e-3
    assert apart.norm() < 2e-3 * moved.norm()  # Adam's first steps magnify the last bits
    assert plain.logger.name_to_value.keys() == other.logger.name_to_value.keys()


@pytest.mark.parametrize("name", KINDS)
def test_it_trains_as_plain_mode_does(name: str) -> None:
    held(name, compile=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppg", "masked", "curious"])
def test_so_it_does_in_compiled_code(name: str) -> None:
    held(name)


@pytest.mark.parametrize("name", ["ppg apart", "idaac"])
def test_a_run_goes_on_bit_for_bit(name: str) -> None:
    """From the middle of a cycle of PPG, whose memory takes its frames from where they lie once."""
    callback = CaptureAt(160)
    model = made(name, mode="fast", compile=False).learn(256, callback=callback)
    assert callback.captured is not None
    other = rebuild(callback.captured.meta, Catch())
    other.restore(callback.captured)
    other.learn(256 - 160, reset_num_timesteps=False)
    assert fingerprint(other) == fingerprint(model)
