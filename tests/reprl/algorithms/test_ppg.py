"""PPG: losses by hand, SB3's PPO where no auxiliary phase is, what is kept, and exact resume."""

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch

from reprl.algorithms import IDAAC, PPG, rebuild
from reprl.algorithms.phase_memory import PhaseMemory, frames_once
from reprl.algorithms.ppg import Remembered, clone_divergence, half_squared
from reprl.policy import actor_forward, critic_forward, policy_forward
from tests.helpers import refuses
from tests.reprl.algorithms.test_capture import CaptureAt, fingerprint
from tests.reprl.algorithms.test_parity import Recorder, assert_same
from tests.toys.catch import SMALL_ENCODER, Catch, score

PHASES: dict[str, Any] = {"n_policy_phases": 3, "auxiliary_epochs": 2, "auxiliary_batch_size": 20}
SMALL: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "seed": 3, "device": "cpu"}
MASK = {"_target_": "reprl.encoders.masks.ConvMask"}


def made(kind: Any = PPG, env: Any = None, **settings: Any) -> Any:
    given = SMALL | {"encoder": SMALL_ENCODER} | (PHASES if kind is PPG else {}) | settings
    return kind("CnnPolicy", env or Catch(), **given)


def copied(module: torch.nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in module.parameters()]


def same(before: list[torch.Tensor], module: torch.nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


# -- the loss -------------------------------------------------------------------------------------


def test_the_terms_by_hand() -> None:
    old = torch.tensor([[0.5, 0.5], [1.0, 0.0]]).clamp(min=1e-30).log()
    new = torch.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    by_hand = (0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75) + math.log(2)) / 2
    assert clone_divergence(old, new).item() == pytest.approx(by_hand, rel=1e-6)
    assert clone_divergence(new, old).item() != pytest.approx(by_hand, rel=1e-2)  # not symmetric
    error = half_squared(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 1.0]))
    assert error.item() == 0.5 * (1 + 4) / 2


def test_a_phases_terms_read_the_right_networks() -> None:
    model = made(beta_clone=0.7)
    model._clone = 0.7
    seen = torch.as_tensor(Catch().reset())
    output = policy_forward(model.policy, seen)
    returns = torch.tensor([1.0, -1.0, 0.5, 0.0])
    old = torch.full((4, 3), 1 / 3).log()
    terms = model.phase_terms(output, None, Remembered(seen, returns, old)).terms
    head = model.heads["value"]
    assert output.actor is not None
    guessed = (output.actor @ head.weight.T + head.bias).flatten()
    values = model.policy.predict_values(seen).flatten()  # SB3's own way to the value
    expected = {
        "auxiliary_value": ((guessed - returns) ** 2).mean() / 2,
        "clone": (old.exp() * (old - output.log_probs)).sum(1).mean(),
        "value": ((values - returns) ** 2).mean() / 2,
    }
    assert {name: term.weight for name, term in terms.items()} == {
        "auxiliary_value": 1.0,
        "clone": 0.7,
        "value": 1.0,
    }
    for name, number in expected.items():
        torch.testing.assert_close(terms[name].value, number)
    # what each of them reaches: the policy's encoder, the value's, or not
    both = (model.policy.features_extractor, model.policy.vf_features_extractor)
    reached = {
        name: [
            any(
                g is not None and g.any()
                for g in torch.autograd.grad(
                    term.value, [*encoder.parameters()], retain_graph=True, allow_unused=True
                )
            )
            for encoder in both
        ]
        for name, term in terms.items()
    }
    assert reached["auxiliary_value"] == reached["clone"] == [True, False]
    assert reached["value"] == [False, True]


# -- without phases it is PPO ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PPG, IDAAC])
def test_without_its_own_terms_it_is_stock_ppo_with_an_extractor_for_each(kind: Any) -> None:
    """Same epochs for both: one sum, one clipping, one optimizer, bit for bit SB3's."""
    common: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "ent_coef": 0.01}
    off = {"auxiliary_epochs": 0} if kind is PPG else {"advantage_coef": 0.0, "order_coef": 0.0}
    apart = {"policy_kwargs": {"share_features_extractor": False}}
    models = []
    for cls, more in (
        (stable_baselines3.PPO, apart),
        (kind, {"value_epochs": 2, **off}),
    ):
        model: Any = cls("CnnPolicy", Catch(), seed=3, device="cpu", **common, **more)
        model.recorder = Recorder()
        models.append(model.learn(4 * 64, callback=model.recorder))
    assert_same(*models)


def test_policy_and_value_take_as_many_steps_as_they_have_epochs() -> None:
    """One optimizer, whose steps pass over parameters that a loss does not reach."""
    model = made(n_steps=8, batch_size=32, n_epochs=1, value_epochs=2, max_grad_norm=1e9)
    assert not model.joint
    model.learn(32)
    pi, vf = model.policy.features_extractor, model.policy.vf_features_extractor
    steps = {int(model.policy.optimizer.state[p]["step"]) for p in pi.parameters()}
    assert steps == {1}
    steps = {int(model.policy.optimizer.state[p]["step"]) for p in vf.parameters()}
    assert steps == {2}


# -- the schedule and what it keeps ---------------------------------------------------------------


def test_a_phase_comes_after_so_many_rollouts_and_forgets_them() -> None:
    model = made()
    head = copied(model.heads)
    model.learn(64)  # two rollouts of 32 steps
    assert len(model.memory) == 2
    assert same(head, model.heads)
    assert not model.phase_optimizer.state
    model.learn(32, reset_num_timesteps=False)
    assert len(model.memory) == 0
    assert not same(head, model.heads)
    taken = {int(state["step"]) for state in model.phase_optimizer.state.values()}
    assert taken == {2 * 5}  # two epochs over 96 samples, 20 at a time
    logged = model.logger.name_to_value
    assert {"phase/clone", "phase/auxiliary_value", "phase/value"} <= set(logged)


def drift(beta: float) -> float:
    """KL of the policy before its first auxiliary phase to the one after it, on a few states."""
    model = made(beta_clone=beta, auxiliary_epochs=8, learning_rate=3e-3)
    seen, phase = torch.as_tensor(Catch().reset()), model._auxiliary_phase
    spoken: list[torch.Tensor] = []

    def say() -> None:
        with torch.no_grad():
            spoken.append(actor_forward(model.policy, seen).log_probs)  # type: ignore[arg-type]

    def noted() -> None:
        say()
        phase()
        say()

    model._auxiliary_phase = noted
    model.learn(96)
    return clone_divergence(*spoken).item()


def test_the_clone_term_holds_the_policy() -> None:
    """The same phase with the term and without: only without does the policy drift."""
    assert 0 <= drift(100.0) < 0.2 * drift(0.0)


@pytest.mark.parametrize(("stack", "channels"), [(4, 1), (1, 1), (6, 3), (3, 3)])
def test_frames_are_kept_once_and_come_back(stack: int, channels: int) -> None:
    rng = np.random.default_rng(0)
    films = rng.integers(256, size=(20, 2, channels, 5, 5), dtype=np.uint8)
    rows, held = [], np.zeros((2, stack, 5, 5), np.uint8)
    for t, frame in enumerate(films):
        if t == 9:
            held[0] = 0  # a game of the first environment begins
        held = np.concatenate([held[:, channels:], frame], axis=1)
        rows.append(held.copy())
    seen = np.stack(rows)
    frames, slots = frames_once(seen, channels=channels, gap=1)
    assert np.array_equal(frames[slots], seen)
    assert len(frames) <= 20 * 2 * channels + 3 * (stack - channels) * 2
    memory = PhaseMemory(seed=1, channels=channels, gap=1)
    memory.add(seen, np.arange(40.0).reshape(20, 2))
    memory.add(seen[::-1], -np.arange(40.0).reshape(20, 2))
    index = np.array([0, 41, 79, 3])
    assert np.array_equal(memory.observations(index)[0], seen[0, 0])
    assert np.array_equal(memory.observations(index)[1], seen[-1, 1])
    assert memory.returns(index).tolist() == [0.0, -1.0, -39.0, 3.0]
    assert sorted(np.concatenate([*memory.shuffled(32)])) == [*range(80)]


# -- saving ---------------------------------------------------------------------------------------

EXTRAS: dict[str, Any] = {
    "attention": MASK,
    "auxiliary": "contrastive",
    "augmentation": "shift",
    "learning_rate": {"kind": "linear", "start": 1e-3, "end": 0.0},
    "beta_clone": {"kind": "linear", "start": 1.0, "end": 0.5},
}


@pytest.mark.parametrize("value_epochs", [1, 2])
def test_a_run_goes_on_exactly_in_the_middle_of_a_cycle(value_epochs: int) -> None:
    """After five rollouts of cycles of three: two of them are in the capture."""
    model, callback = made(value_epochs=value_epochs, **EXTRAS), CaptureAt(160)
    model.learn(256, callback=callback)
    truth = fingerprint(model)
    assert callback.captured is not None
    kept = [k for k in callback.captured.state if k.startswith("memory.phase.0")]
    assert len(kept) == 2

    def gone_on() -> str:
        other = rebuild(callback.captured.meta, Catch())  # type: ignore[union-attr]
        other.restore(callback.captured)
        other.learn(256 - 160, reset_num_timesteps=False)
        return fingerprint(other)

    assert gone_on() == truth
    moments = [k for k in callback.captured.optimizer if "|phase:exp_avg" in k]
    assert moments
    for part, key in (("state", kept[0]), ("optimizer", moments[0])):
        lost = dict(getattr(callback.captured, part))
        if part == "state":
            del lost[key]  # a rollout of the cycle
        else:
            lost[key] = torch.ones_like(lost[key])
        whole = getattr(callback.captured, part)
        setattr(callback.captured, part, lost)
        assert gone_on() != truth, key
        setattr(callback.captured, part, whole)


def test_sb3s_own_saving_keeps_the_head_and_its_optimizer(tmp_path: Path) -> None:
    model = made().learn(96)
    model.save(tmp_path / "agent.zip")
    loaded = PPG.load(tmp_path / "agent.zip", env=Catch(), device="cpu")
    assert same(copied(model.heads), loaded.heads)
    ours, theirs = (m.phase_optimizer.state_dict()["state"] for m in (model, loaded))
    assert torch.equal(ours[0]["exp_avg"], theirs[0]["exp_avg"])
    assert loaded.n_policy_phases == 3


# -- the two networks -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PPG, IDAAC])
def test_the_mask_is_the_policys(kind: Any) -> None:
    model = made(kind, attention=MASK).learn(96)
    pi, vf = model.policy.features_extractor, model.policy.vf_features_extractor
    assert pi.attention is not None
    assert vf.attention is None
    moved = {id(p) for group in model.policy.optimizer.param_groups for p in group["params"]}
    assert {id(p) for p in model.policy.parameters()} <= moved
    seen = Catch().reset()
    outputs, _ = model.player().outputs(seen)
    assert outputs.attention is not None
    assert outputs.attention.shape[:2] == (4, 1)
    values = critic_forward(model.policy, torch.as_tensor(seen)).values
    np.testing.assert_allclose(outputs.values, values.detach(), rtol=1e-5, atol=1e-6)
    again = rebuild(model.capture().meta)
    again.restore(model.capture())
    assert np.array_equal(again.player().outputs(seen)[0].probs, outputs.probs)


def test_a_frozen_encoder_is_the_policys() -> None:
    model = made(encoder=SMALL_ENCODER | {"freeze": True})
    policy = model.policy
    pi, vf = copied(policy.features_extractor), copied(policy.vf_features_extractor)
    model.learn(96)
    assert same(pi, policy.features_extractor)
    assert not same(vf, policy.vf_features_extractor)


@pytest.mark.slow
def test_it_learns_to_catch() -> None:
    env = Catch(8, 7, stack=2, cut=False)
    model = made(
        env=env,
        n_steps=32,
        batch_size=64,
        n_epochs=3,
        value_epochs=3,
        n_policy_phases=4,
        auxiliary_batch_size=128,
        learning_rate=1e-3,
    )
    model.learn(8 * 32 * 24)
    assert score(model) > score(None) + 0.5


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PPG, IDAAC])
def test_what_it_has_not_is_refused(kind: Any) -> None:
    name = kind.__name__.lower()
    for loss, asked in (("drac", "values"), ("svea", "value_loss")):  # its features have no value
        with refuses(f"'{loss}'", asked):
            made(kind, auxiliary=loss)
    with refuses("share_features_extractor=True"):
        made(kind, policy_kwargs={"share_features_extractor": True})
    with refuses(f"algo={name}", "discrete actions"):
        kind("MlpPolicy", gymnasium.make("Pendulum-v1"), **SMALL)


def test_a_minibatch_larger_than_a_cycle_is_refused() -> None:
    with refuses("auxiliary_batch_size=97", "n_policy_phases=3", "96"):
        made(auxiliary_batch_size=97)
    made(auxiliary_batch_size=97, auxiliary_epochs=0)
