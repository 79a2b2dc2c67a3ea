"""Losses and augmentations over sequences: heard, without padding, through the same memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sb3_contrib
import torch
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from torch import Tensor

from reprl import checkpoint, components
from reprl.algorithms import RecurrentPPO, rebuild
from reprl.policy import recurrent_forward
from reprl.sequences import Sequences
from tests.helpers import refuses
from tests.reprl.algorithms.parts import ENCODER, FLIP, odd, spread
from tests.toys.catch import SMALL_ENCODER, Catch

SMALL: dict[str, Any] = {"n_steps": 8, "batch_size": 12, "n_epochs": 2, "seed": 3, "device": "cpu"}
SMALL |= {"lstm_size": 8}
VIEWS = {"_target_": "reprl.augmentation.Shift", "pixels": 2, "use": "views"}
RAD = {"_target_": "reprl.augmentation.Shift", "pixels": 2}
NOT_HERE = {"saliency_guided", "object_target"}  # one picture alone; Catch tells no truth
ABOUT_A_MASK = {"mask_entropy", "motion_target", "sparsity", "total_variation"}


def make(**settings: Any) -> RecurrentPPO:
    given = SMALL | {"encoder": SMALL_ENCODER} | settings
    return RecurrentPPO("CnnPolicy", Catch(stack=2), **given)


def same(a: Any, b: Any) -> bool:
    pairs = zip(a.policy.state_dict().values(), b.policy.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize(
    "more",
    [{}, {"clip_range_vf": 0.1, "vf_coef": 0.3, "ent_coef": 0.07}, {"target_kl": 1e-9}],
)
def test_pictures_are_sb3_contribs_bit_for_bit_with_a_silent_loss_too(more: Any) -> None:
    given = {k: v for k, v in SMALL.items() if k != "lstm_size"} | more
    kwargs = {"lstm_hidden_size": 8}
    stock = sb3_contrib.RecurrentPPO("CnnLstmPolicy", Catch(), policy_kwargs=kwargs, **given)
    stock.learn(64)
    ours = RecurrentPPO("CnnPolicy", Catch(), lstm_size=8, **given).learn(64)
    assert same(stock, ours)
    for name in ("loss", "value_loss", "approx_kl", "clip_fraction", "explained_variance"):
        theirs = stock.logger.name_to_value[f"train/{name}"]
        assert ours.logger.name_to_value[f"train/{name}"] == pytest.approx(theirs, rel=1e-6), name
    assert (ours.early_stops > 0) == ("target_kl" in more)
    silent = RecurrentPPO(
        *("CnnPolicy", Catch()), encoder=ENCODER, auxiliary=spread(), lstm_size=8, **given
    )
    assert same(stock, silent.learn(64))
    if not more:
        more = {"encoder": ENCODER, "auxiliary": spread(coef=0.1)}
        heard = RecurrentPPO("CnnPolicy", Catch(), lstm_size=8, **given, **more)
        assert not same(stock, heard.learn(64))


class Noisy(Sequences):
    """The same sequences with something in their padding."""

    def pad(self, samples: Tensor) -> Tensor:
        padded = super().pad(samples)
        if samples.dtype == torch.uint8:
            empty = torch.ones(len(padded), dtype=torch.bool)
            empty[self.rows] = False
            assert empty.any()
            padded[empty] = 200
        return padded


def terms(model: RecurrentPPO, minibatch: Any) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Every term of a minibatch, from the same random streams each time."""
    before = model.losses.state()
    weights = model.losses.weights(model.num_timesteps, 1.0)
    losses = model.update.losses(
        model,
        minibatch,
        minibatch.actions.long().flatten(),
        weights,
        lambda: model.rollout_buffer.fields(minibatch),
        0,
    )
    model.losses.load_state(before)
    return losses.numbers, losses.own | losses.auxiliary


EVERYTHING: dict[str, Any] = {
    "attention": "conv",
    "auxiliary": {
        "contrastive": {"_target_": "reprl.auxiliary.Contrastive", "coef": 0.1},
        "drac": {"_target_": "reprl.auxiliary.DrAC", "coef": 0.1},
        "svea": {"_target_": "reprl.auxiliary.Svea", "coef": 0.1},
        "inverse": {"_target_": "reprl.auxiliary.InverseDynamics", "coef": 0.1},
        "spread": spread(coef=0.1),
    },
    "augmentation": RAD,
}


def test_padding_takes_no_part() -> None:
    model = make(**EVERYTHING).learn(64)
    for minibatch in model.rollout_buffer.minibatches(12):
        layout = minibatch.sequences
        assert layout is not None
        if len(layout.starts) == len(layout.rows):
            continue  # nothing is padded
        noisy = Noisy(**{name: getattr(layout, name) for name in layout.__dataclass_fields__})
        clean, _ = terms(model, minibatch)
        dirty, _ = terms(model, minibatch._replace(sequences=noisy))
        assert clean == dirty
        assert {"policy", "value", "entropy", "contrastive", "drac", "svea"} <= set(clean)
        return
    raise AssertionError("no minibatch was padded")


def test_every_term_reaches_the_encoder_and_the_mask() -> None:
    model = make(**EVERYTHING).learn(32)
    minibatch = next(model.rollout_buffer.minibatches(12))
    _, found = terms(model, minibatch)
    encoder = dict(model.policy.features_extractor.named_parameters())
    assert any("attention" in name for name in encoder)
    for name in ("policy", "value", "contrastive", "drac", "svea", "inverse_dynamics", "spread"):
        slopes = torch.autograd.grad(found[name], list(encoder.values()), retain_graph=True)
        for key, slope in zip(encoder, slopes, strict=True):
            assert slope.abs().sum() > 0, (name, key)


def test_the_heads_of_a_batch_go_through_the_memory_of_the_minibatch() -> None:
    """They are sb3-contrib's of the same pictures, and others if a state goes on over a start."""
    model = make(auxiliary={"_target_": "reprl.auxiliary.DrAC", "augmentation": "none"}).learn(64)
    minibatch = next(model.rollout_buffer.minibatches(12))
    layout, actions = minibatch.sequences, minibatch.actions.long().flatten()
    assert layout is not None
    with torch.no_grad():
        values, log_prob, _ = model.policy.evaluate_actions(
            layout.pad(minibatch.observations),
            layout.pad(actions),
            RNNStates(layout.actor, layout.critic),  # type: ignore[call-arg]
            layout.starts,
        )
        batch = _batch(model, minibatch)
        found, expected = batch.heads(batch.output.features)
        torch.testing.assert_close(found.gather(1, actions[:, None])[:, 0], layout.unpad(log_prob))
        torch.testing.assert_close(expected, layout.unpad(values.flatten()))
        drac = model.losses.compute(batch, {"drac"})["drac"]
        assert drac.item() == pytest.approx(-found.max().item(), rel=0.2)  # no gap, only surprise
        going_on = replace(layout, starts=torch.zeros_like(layout.starts))  # no memory is emptied
        batch.sequences = going_on
        assert not torch.allclose(batch.heads(batch.output.features)[1], batch.values)


def _batch(model: RecurrentPPO, minibatch: Any) -> Any:
    output = recurrent_forward(model.policy, minibatch.observations, minibatch.sequences)
    return model.losses.batch(
        output,
        observations=minibatch.observations,
        actions=minibatch.actions.long().flatten(),
        augmented_from=None,
        fields={},
        sequences=minibatch.sequences,
    )


def test_rad_moves_a_sequence_as_a_whole_and_its_actions_with_it() -> None:
    model = make(augmentation=FLIP | {"use": "rad"}).learn(64)
    minibatch = next(model.rollout_buffer.minibatches(24))
    layout = minibatch.sequences
    assert layout is not None
    assert layout.count > 3
    view = model.losses.view(minibatch.observations, layout)
    assert view.mirrored is not None
    for number in range(layout.count):
        of_one = view.mirrored[layout.owner == number]
        assert of_one.all() or not of_one.any()
    actions = minibatch.actions.long().flatten()
    exchanged = torch.tensor([0, 2, 1])[actions]
    wanted = torch.where(view.mirrored, exchanged, actions)
    assert torch.equal(model.losses.follow(view, actions), wanted)


def test_with_everything_it_goes_on_bit_for_bit_from_its_checkpoint(tmp_path: Path) -> None:
    whole = make(**EVERYTHING, memory="gru", instrument_every=1)
    whole.learn(64)
    checkpoint.save(whole, tmp_path)
    whole.learn(64, reset_num_timesteps=False)
    again = checkpoint.load(tmp_path, Catch(stack=2))
    again.learn(64, reset_num_timesteps=False)
    assert same(whole, again)
    ours, theirs = (model.losses.modules.state_dict() for model in (whole, again))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    player = checkpoint.load(tmp_path).player()  # without an environment
    outputs, _ = player.outputs(Catch(stack=2).reset(), player.initial_state(4))
    assert outputs.attention is not None


def test_the_instruments_are_those_of_ppo() -> None:
    watched = make(attention="conv", auxiliary="contrastive", instrument_every=1).learn(64)
    logged = watched.logger.name_to_value
    for name in ("features/effective_rank", "churn/policy_kl", "churn/value", "attention/mean"):
        assert name in logged
    assert logged["gradient/contrastive_norm"] > 0
    assert any(name.startswith("dormant_units/") for name in logged)
    assert logged["loss/contrastive_share"] > 0
    blind = make(attention="conv", auxiliary="contrastive", instrument_every=0).learn(64)
    assert same(watched, blind)


@pytest.mark.slow
@pytest.mark.parametrize("name", components.names("auxiliary"))
def test_every_loss_works_or_is_refused_by_name(name: str) -> None:
    mask = {"attention": "conv"} if name != "none" else {}
    if name == "saliency_guided":
        with refuses(name, "one picture alone", "without a memory"):
            make(auxiliary=name, **mask)
    elif name == "object_target":
        with refuses("boxes"):
            make(auxiliary=name, **mask)
    else:
        assert make(auxiliary=name, **mask).learn(32)._n_updates == 2


def test_what_cannot_be_is_said() -> None:
    nested = {"_target_": "reprl.auxiliary.Representation", "contra_coef": 1.0}
    saliency = {"_target_": "reprl.auxiliary.SaliencyGuided"}
    with refuses("representation", "one picture alone"):
        make(auxiliary={"representation": nested | {"contrastive": saliency}})
    with refuses("use=views", "reconstruction"):
        make(auxiliary="reconstruction", augmentation=VIEWS)
    with refuses("RecurrentPPO", "ranks=1"):
        make().share(object())  # type: ignore[arg-type]
    with refuses("batch.heads"):
        make(auxiliary=odd(habit="heads"))


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_at_once_is_step_by_step_within_rounding(memory: str) -> None:
    """Sequences that begin with a game, go on from a state, and are padded; terms and slopes."""
    model = make(**EVERYTHING, memory=memory).learn(64)
    kinds: set[bool | str] = set()
    for minibatch in model.rollout_buffer.minibatches(12):
        layout = minibatch.sequences
        assert layout is not None
        begins = layout.starts.view(layout.count, layout.length)[:, 0] > 0
        if not begins.any():
            continue  # sb3-contrib takes such in one call, too
        kinds |= {bool(x) for x in begins}
        kinds |= {"padded"} if len(layout.starts) > len(layout.rows) else set()
        step_by_step, of_steps = slopes(model, minibatch)
        faster = minibatch._replace(sequences=replace(layout, at_once=True))
        at_once, of_whole = slopes(model, faster)
        assert set(at_once) == set(step_by_step)
        for name, value in at_once.items():
            assert value == pytest.approx(step_by_step[name], rel=1e-4, abs=1e-6), name
        for one, other in zip(of_steps, of_whole, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    assert kinds == {True, False, "padded"}


def slopes(model: RecurrentPPO, minibatch: Any) -> tuple[dict[str, float], list[Tensor]]:
    """The terms of a minibatch, and the gradient of policy and value by every parameter."""
    numbers, found = terms(model, minibatch)
    parameters = list(model.policy.parameters())
    asked = found["policy"] + found["value"] + found["drac"]
    return numbers, list(torch.autograd.grad(asked, parameters))


def test_at_once_learns_and_goes_on_bit_for_bit() -> None:
    model = make(at_once=True).learn(64)
    captured = model.capture()
    model.learn(32, reset_num_timesteps=False)
    again = rebuild(captured.meta, Catch(stack=2))
    assert again.at_once
    again.restore(captured)
    again.learn(32, reset_num_timesteps=False)
    assert same(model, again)
