"""Compiled or eager: tried on a new run until its first update is over, then never changed."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor
from torch._dynamo.testing import CompileCounter

from reprl.algorithms import rebuild
from reprl.algorithms.compiled import CompiledPolicy
from tests.helpers import refuses
from tests.reprl.algorithms.test_fast import SETTINGS, parameters, trained
from tests.toys.catch import Catch

pytestmark = pytest.mark.slow  # trains


def fail(*_: Any) -> Any:
    raise RuntimeError("no compiler")


class NoWayBack(torch.autograd.Function):
    """The identity, whose backward pass cannot be had."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError("no compiler")


def without(broken: str) -> Callable[..., Any]:
    """A torch.compile whose code works but for one of three parts."""

    def compile(function: Any, **_: Any) -> Any:
        def compiled(*arguments: Any) -> Any:
            learning = torch.is_grad_enabled()
            if function.__name__ == "_rmsprop":
                return fail() if broken == "optimizer" else function(*arguments)
            if learning and broken == "forward":
                fail()
            outputs = function(*arguments)
            if learning and broken == "backward":
                return (*outputs[:3], NoWayBack.apply(outputs[3]), outputs[4])
            return outputs

        return compiled

    return compile


def trained_with_one_warning(kind: str, **arguments: Any) -> Any:
    with pytest.warns(UserWarning, match="running eager: no compiler") as seen:
        model = trained(kind, mode="fast", **arguments)
    assert len([w for w in seen if "eager" in str(w.message)]) == 1
    assert model.compiled is False
    return model


def test_compile_that_fails_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda *_, **__: fail)
    model = trained_with_one_warning("ppo")
    meta = model.capture().meta
    assert meta["compiled"] is False
    other = rebuild(meta, Catch())
    assert other.compiled is False
    meta["compiled"] = True
    with refuses("was compiled"):
        rebuild(meta | {"extras": meta["extras"] | {"compile": True}}, Catch()).learn(8)


def test_every_model_of_a_process_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's limit of 8 variants a function would leave the fifth model eager, unsaid."""
    counter = CompileCounter()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counter))
    torch._dynamo.reset()
    for width in (8, 12, 16, 20, 24):
        before = counter.frame_count
        encoder = {"_target_": "reprl.encoders.Nature", "features_dim": width}
        trained("a2c", mode="fast", encoder=encoder)
        assert counter.frame_count - before >= 3  # rollout, update, optimizer
    torch._dynamo.reset()


@pytest.mark.parametrize("compiled", [False, True])
def test_a_restored_model_is_held_to_what_the_run_was(compiled: bool) -> None:
    """`reprl resume` builds the model from its configuration and restores into it."""
    captured = trained("ppo", mode="fast", compile=False).capture()
    captured.meta["compiled"] = compiled
    cls, settings = SETTINGS["ppo"]
    fresh = cls("CnnPolicy", Catch(), seed=5, device="cpu", mode="fast", **settings)
    assert fresh.compiled is None
    fresh.restore(captured)
    assert fresh.network.must is compiled
    assert fresh.compiled is compiled  # a checkpoint before the next update must say so too
    eager = cls("CnnPolicy", Catch(), mode="fast", compile=False, device="cpu", **settings)
    if compiled:
        with refuses("was compiled"):
            eager.restore(captured)


@pytest.mark.parametrize("broken", ["forward", "backward", "optimizer"])
def test_a_new_run_falls_back_whichever_part_fails(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rollout compiles, so that only the first update shows what does not."""
    eager = trained("a2c", mode="fast", compile=False)
    monkeypatch.setattr(torch, "compile", without(broken))
    model = trained_with_one_warning("a2c")
    assert torch.equal(parameters(model), parameters(eager))
    assert model.capture().meta["compiled"] is False


def test_after_an_update_in_compiled_code_there_is_no_way_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Break(BaseCallback):
        """The compiler goes away behind the first update."""

        def _on_rollout_start(self) -> None:
            network = self.model.network
            assert isinstance(network, CompiledPolicy)
            if self.num_timesteps:
                assert network.compiled is True
                network._update = fail

        def _on_step(self) -> bool:
            return True

    monkeypatch.setattr(torch, "compile", without("nothing"))
    with refuses("compiled", "torch.compile"):
        trained("a2c", mode="fast", callback=Break())


def test_the_way_back_is_tried_once_and_leaves_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    walks = []
    original = CompiledPolicy._walk_back

    def walk(self: CompiledPolicy, outputs: Any) -> None:
        original(self, outputs)
        walks.append([p.grad for p in self.policy.parameters() if p.grad is not None])

    monkeypatch.setattr(torch, "compile", without("nothing"))
    monkeypatch.setattr(CompiledPolicy, "_walk_back", walk)
    model = trained("ppo", mode="fast")
    assert model.compiled is True
    assert walks == [[]]
