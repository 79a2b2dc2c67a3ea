"""Precision: bf16 layers beside float32 parameters and numbers; fp32 stays what it was."""

from pathlib import Path
from typing import Any

import pytest
import torch

from reprl import precision
from reprl.algorithms import A2C, PPO, Captured, rebuild
from reprl.config.compose import compose
from reprl.config.schema import check
from tests.helpers import refuses
from tests.reprl.algorithms.test_capture import CaptureAt
from tests.toys.catch import Catch

SETTINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ppo": (PPO, {"n_steps": 8, "batch_size": 16, "n_epochs": 2}),
    "a2c": (A2C, {"n_steps": 4}),
}
EXTRAS: dict[str, Any] = {
    "encoder": {"_target_": "tests.toys.catch.SmallEncoder"},
    "attention": {"_target_": "reprl.encoders.masks.ConvMask"},
    "auxiliary": "attention_contrastive",
    "augmentation": {"name": "cutout", "use": "rad"},
}


def model(kind: str, **arguments: Any) -> Any:
    cls, settings = SETTINGS[kind]
    given = settings | {"mode": "fast", "compile": False} | arguments
    return cls("CnnPolicy", Catch(), seed=5, device="cpu", **given)


def parameters(trained: Any) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in trained.policy.parameters()])


def layer_types(agent: Any) -> set[torch.dtype]:
    """What the convolutions and linear layers of the trunk compute in."""
    seen: set[torch.dtype] = set()
    for module in agent.policy.features_extractor.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            module.register_forward_hook(lambda m, i, out: seen.add(out.dtype))
    return seen


@pytest.mark.parametrize("kind", SETTINGS)
def test_layers_compute_in_bf16_while_all_else_is_float32(kind: str) -> None:
    agent = model(kind, precision="bf16", **EXTRAS)
    seen, terms = layer_types(agent), []
    kept = agent.update.losses

    def losses(*arguments: Any) -> Any:
        found = kept(*arguments)
        terms.extend([found.total, *found.own.values(), *found.auxiliary.values()])
        return found

    agent.update.losses = losses
    agent.instrument_every = 0  # the diagnostics' own forward passes are in fp32
    agent.learn(32)
    assert seen == {torch.bfloat16}
    assert {t.dtype for t in terms} == {torch.float32}
    assert {p.dtype for p in agent.policy.parameters()} == {torch.float32}
    moments = [v for s in agent.policy.optimizer.state.values() for v in s.values()]
    assert {m.dtype for m in moments if torch.is_tensor(m)} == {torch.float32}
    assert agent.rollout_buffer.values.dtype == "float32"


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_loss_of_a_minibatch_is_close_to_that_of_fp32(kind: str) -> None:
    agents = {p: model(kind, precision=p, **EXTRAS) for p in ("fp32", "bf16")}
    agents["fp32"].learn(32)
    memory, results = agents["fp32"].rollout_buffer, {}
    (minibatch, *_) = memory.minibatches(16)
    for name, agent in agents.items():
        agent.policy.load_state_dict(agents["fp32"].policy.state_dict())
        agent.auxiliary.load_state_dict(agents["fp32"].auxiliary.state_dict())
        agent.losses.load_state(agents["fp32"].losses.state())
        agent._logger = agents["fp32"].logger
        agent._begin_update()
        weights = agent.losses.weights(0, 1.0)
        actions = minibatch.actions.long().flatten()
        state = agent.losses.state()
        found = agent.update.losses(
            agent, minibatch, actions, weights, lambda: memory.fields(minibatch), 0
        )
        agents["fp32"].losses.load_state(state)  # both draw the same views
        agent.policy.optimizer.zero_grad()
        found.total.backward()
        gradient = torch.cat([p.grad.reshape(-1) for p in agent.policy.parameters()])
        results[name] = found.numbers, gradient
    (exact, true), (rounded, close) = results["fp32"], results["bf16"]
    assert exact != rounded
    for term, number in exact.items():
        assert rounded[term] == pytest.approx(number, rel=0.05, abs=0.02), term
    assert torch.nn.functional.cosine_similarity(true, close, dim=0) > 0.98


def test_weights_that_were_used_without_gradient_before_still_get_one() -> None:
    layer = torch.nn.Linear(4, 4)
    with precision.computing_in("bf16", "cpu"):
        with torch.no_grad():
            layer(torch.ones(1, 4))
        layer(torch.ones(1, 4)).sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.parametrize("kind", SETTINGS)
def test_bf16_continues_exactly_and_is_repeatable(kind: str) -> None:
    at = CaptureAt(32)
    straight = model(kind, precision="bf16", **EXTRAS).learn(64, callback=at)
    assert isinstance(at.captured, Captured)
    other = rebuild(at.captured.meta, Catch())
    assert other.precision == "bf16"
    other.restore(at.captured)
    other.learn(32, reset_num_timesteps=False)
    assert torch.equal(parameters(straight), parameters(other))
    in_fp32 = model(kind, **EXTRAS)
    with refuses("precision=bf16", "precision=fp32"):
        in_fp32.restore(at.captured)


def test_fp32_is_the_default_and_leaves_no_trace() -> None:
    agents = [model("ppo", **given).learn(32) for given in ({}, {"precision": "fp32"})]
    assert torch.equal(*map(parameters, agents))
    assert "precision" not in agents[0].settings()
    said, unsaid = (check(compose(["device=cpu", *o])) for o in (["precision=fp32"], []))
    assert said.hash == unsaid.hash
    assert "precision" not in said.plain()


def test_bf16_is_part_of_what_a_run_is() -> None:
    config = check(compose(["device=cpu", "mode=fast", "precision=bf16"]))
    assert config.plain()["precision"] == "bf16"
    assert config.hash != check(compose(["device=cpu", "mode=fast"])).hash


@pytest.mark.parametrize(
    ("flags", "has"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 sse", True),
        ("flags\t\t: fpu amx_bf16", True),
        ("Features\t: fp asimd bf16", True),
        ("flags\t\t: fpu avx2 avx512f", False),
        ("model name\t: bf16 avx512_bf16", False),
        ("", False),
    ],
)
def test_auto_asks_the_cpu(
    flags: str, has: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor\t: 0\n{flags}\n")
    assert precision.cpu_has_bf16(file) is has
    monkeypatch.setattr(precision, "cpu_has_bf16", lambda: has)
    found = check(compose(["device=cpu", "mode=fast", "precision=auto"]))
    assert found.precision == ("bf16" if has else "fp32")
    assert model("a2c", precision="auto").precision == found.precision
    assert check(compose(["device=cpu", "mode=plain", "precision=auto"])).precision == "fp32"
    slow = check(compose(["device=cpu", "mode=fast", "precision=bf16"])).warnings()
    assert any("bf16" in warning for warning in slow) is not has


def test_a_machine_that_does_not_say_has_none(tmp_path: Path) -> None:
    assert not precision.cpu_has_bf16(tmp_path / "nothing")


def test_wrong_precisions_are_one_sentence() -> None:
    with refuses("precision=fp16", "fp32, bf16, auto"):
        model("ppo", precision="fp16")
    with refuses("precision=bf16", "mode=fast"):
        model("ppo", precision="bf16", mode="plain")


@pytest.mark.slow  # compiles
def test_compiled_bf16_follows_eager_bf16() -> None:
    small = {"encoder": EXTRAS["encoder"], "instrument_every": 0}
    compiled = model("a2c", precision="bf16", compile=True, **small).learn(32)
    eager = model("a2c", precision="bf16", **small).learn(32)
    assert compiled.compiled is True
    moved = (parameters(eager) - parameters(model("a2c", **small))).norm()
    assert (parameters(eager) - parameters(compiled)).norm() < 0.2 * moved
