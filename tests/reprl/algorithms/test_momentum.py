"""Momentum as a schedule: Adam's first beta by hand, what has its own, and exact resume."""

from typing import Any

import pytest
import torch

from reprl.algorithms import A2C, PPO, rebuild
from reprl.algorithms.parameter_groups import set_momentum
from tests.helpers import refuses
from tests.reprl.algorithms.test_capture import CaptureAt, fingerprint
from tests.toys.catch import Catch

CYCLE = {"kind": "one_cycle", "start": 0.95, "peak": 0.85, "end": 0.95, "peak_at": 0.5}
SMALL: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "n_epochs": 1, "device": "cpu", "seed": 3}


class Betas(CaptureAt):
    """Notes Adam's first beta after each update but the last."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.seen: list[float] = []

    def _on_rollout_start(self) -> None:
        super()._on_rollout_start()
        if self.model.num_timesteps:
            optimizer = self.model.policy.optimizer
            self.seen.append(optimizer.param_groups[0]["betas"][0])


def test_it_is_low_in_the_middle_and_continues_exactly() -> None:
    at = Betas(32)
    whole = PPO("CnnPolicy", Catch(2), momentum=CYCLE, **SMALL).learn(64, callback=at)
    # a quarter, a half and three quarters of the way, half of the cosine down and up
    assert at.seen == pytest.approx([0.90, 0.85, 0.90])
    assert whole.policy.optimizer.param_groups[0]["betas"] == (pytest.approx(0.95), 0.999)
    assert at.captured is not None
    again = rebuild(at.captured.meta, Catch(2, seed=9))
    again.restore(at.captured)
    again.learn(32, reset_num_timesteps=False)
    assert fingerprint(again) == fingerprint(whole)


def test_the_usual_number_changes_nothing() -> None:
    plain = PPO("CnnPolicy", Catch(2), **SMALL).learn(32)
    said = PPO("CnnPolicy", Catch(2), momentum=0.9, **SMALL).learn(32)
    for name, tensor in plain.policy.state_dict().items():
        assert torch.equal(tensor, said.policy.state_dict()[name]), name


def test_what_has_betas_of_its_own_keeps_them() -> None:
    parameters = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    optimizer = torch.optim.Adam([{"params": parameters[:1]}], betas=(0.9, 0.99))
    optimizer.add_param_group({"params": parameters[1:], "betas": (0.5, 0.9), "own_betas": True})
    set_momentum(optimizer, 0.85)
    assert [group["betas"] for group in optimizer.param_groups] == [(0.85, 0.99), (0.5, 0.9)]


def test_an_optimizer_without_momentum_refuses_it() -> None:
    with refuses("algo.momentum", "RMSprop", "algo.optimizer=adam"):
        A2C("CnnPolicy", Catch(2), momentum=0.9, device="cpu")
