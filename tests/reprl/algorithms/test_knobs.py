"""Weights and rates of an update by hand: actor_loss_coef, a piecewise rate, when to stop."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from reprl.algorithms import A2C, PPO, Reinforce, rebuild
from reprl.runs.loop import Session
from tests.helpers import refuses
from tests.reprl.algorithms.test_capture import CaptureAt, fingerprint
from tests.toys.catch import Catch

SMALL: dict[str, Any] = {"n_steps": 8, "device": "cpu", "seed": 3}
ONCE: dict[str, Any] = {"batch_size": 16, "n_epochs": 1}
GRADIENT_DESCENT = {"optimizer_class": torch.optim.SGD, "optimizer_kwargs": {}}


def moved(cls: Any, coef: float, **more: Any) -> dict[str, torch.Tensor]:
    """How far one step of gradient descent moves every parameter."""
    given: dict[str, Any] = {**SMALL, **(ONCE if cls is PPO else {}), "ent_coef": 0.0, **more}
    given |= {"policy_kwargs": dict(GRADIENT_DESCENT), "max_grad_norm": 1e9}
    model = cls("CnnPolicy", Catch(2), actor_loss_coef=coef, **given)
    before = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
    model.learn(16)
    return {name: tensor - before[name] for name, tensor in model.policy.state_dict().items()}


@pytest.mark.parametrize("cls", [PPO, A2C, Reinforce])
def test_the_policys_loss_alone_is_weighed(cls: Any) -> None:
    settings = {"learning_rate": 0.1}
    without, once, thrice = (moved(cls, coef, **settings) for coef in (0.0, 1.0, 3.0))
    assert not without["action_net.weight"].any()
    assert once["action_net.weight"].abs().max() > 0
    assert once["value_net.weight"].abs().max() > 0
    for name in once:
        # what the value's loss does stays; what the policy's does is three times as much
        expected = without[name] + 3 * (once[name] - without[name])
        torch.testing.assert_close(thrice[name], expected, rtol=1e-3, atol=1e-6, msg=name)
    assert torch.equal(once["value_net.weight"], without["value_net.weight"])


class Noted(CaptureAt):
    """Notes what an update was done with, after each but the last."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.seen: list[tuple[float, float]] = []

    def _on_rollout_start(self) -> None:
        super()._on_rollout_start()
        model: Any = self.model
        if model.num_timesteps:
            rate = model.policy.optimizer.param_groups[0]["lr"]
            self.seen.append((model.actor_loss_coef, rate))


def test_schedules_reach_the_update_and_continue_exactly() -> None:
    at = Noted(32)
    whole = PPO(
        *("CnnPolicy", Catch(2)),
        actor_loss_coef={"kind": "linear", "start": 2.0, "end": 0.0},
        learning_rate={"kind": "piecewise", "points": [[0, 1e-3], [0.5, 1e-4], [1, 0]]},
        **SMALL,
        **ONCE,
    ).learn(64, callback=at)
    # a quarter, a half and three quarters of the way
    expected = [(1.5, 5.5e-4), (1.0, 1e-4), (0.5, 5e-5)]
    assert [number for pair in at.seen for number in pair] == pytest.approx(
        [number for pair in expected for number in pair]
    )
    assert at.captured is not None
    again = rebuild(at.captured.meta, Catch(2, seed=9))
    again.restore(at.captured)
    again.learn(32, reset_num_timesteps=False)
    assert fingerprint(again) == fingerprint(whole)


def test_an_algorithm_without_a_policys_loss_refuses_its_weight() -> None:
    from reprl.algorithms import Imitation
    from reprl.envs import make_vec_env

    with refuses("Imitation", "actor_loss_coef"):
        Imitation("CnnPolicy", make_vec_env(n_envs=1), actor_loss_coef=2.0, device="cpu")


def test_a_run_stops_by_the_mean_of_its_last_games() -> None:
    def session(scores: list[float], wanted: float | None) -> Any:
        stop = SimpleNamespace(games=3, score=wanted)
        made: Any = SimpleNamespace(
            config=SimpleNamespace(stop=stop),
            model=SimpleNamespace(ep_info_buffer=[{"r": score} for score in scores]),
        )
        made._recent = lambda: Session._recent(made)
        return made

    assert math.isnan(Session._recent(session([9.0, 9.0], 5.0)))  # too few games to judge by
    assert not Session._reached(session([9.0, 9.0], 5.0))
    # the mean of 4, 5 and 6; the 90 is too long ago
    assert Session._recent(session([90.0, 4.0, 5.0, 6.0], 5.0)) == 5.0
    assert Session._reached(session([90.0, 4.0, 5.0, 6.0], 5.0))
    assert not Session._reached(session([90.0, 4.0, 5.0, 5.9], 5.0))
    assert not Session._reached(session([90.0, 4.0, 5.0, 6.0], None))
