"""Nested coefficients: multiplied through as the field notes write them."""

from dataclasses import replace

import pytest
import torch

from reprl import components
from reprl.algorithms import PPO
from reprl.auxiliary import Representation, Sparsity, TemporalContrastive
from tests.helpers import refuses
from tests.toys.catch import Catch


def test_the_coefficients_nest():
    loss = components.build("auxiliary", components.resolve("auxiliary", "attention_contrastive"))
    assert loss.weights == pytest.approx(
        {
            "contrastive": 5e-4,  # 0.05 x 0.01
            "sparsity": 5e-6,  # 0.05 x 1e-4
            "decoder": 5e-3,  # 0.05 x 0.1
            "regularization": 1e-5,  # beside the representation loss, not inside it
        }
    )


def test_a_part_without_a_coefficient_is_left_out_and_a_silent_whole_is_not():
    loss = Representation(contra_coef=0.0, encoder_coef=0.5, recon_coef=2.0, repr_coef=0.1)
    assert loss.weights == pytest.approx({"sparsity": 0.05, "reconstruction": 0.2})
    assert set(Representation(repr_coef=0.0, encoder_coef=1.0).weights.values()) == {0.0}


def test_start_step_and_schedule_are_handed_on():
    loss = Representation(
        repr_coef=0.5,
        begin_repr=1000,
        encoder_coef={"kind": "linear", "start": 0.2, "end": 0.0},
        contra_coef=1.0,
        contrastive={"_target_": "reprl.auxiliary.TemporalContrastive", "begin": 4000, "offset": 4},
    )
    assert loss.begin == {"contrastive": 4000, "sparsity": 1000}
    assert loss.weights["sparsity"] == {"kind": "linear", "start": 0.1, "end": 0.0, "warmup": 0.0}
    assert loss.reach == 4


def test_the_outer_coefficient_may_be_a_schedule():
    falling = {"kind": "linear", "start": 0.4, "end": 0.2}
    loss = Representation(repr_coef=falling, encoder_coef=0.5, regularize_coef=1e-5)
    assert loss.weights["sparsity"] == {"kind": "linear", "start": 0.2, "end": 0.1, "warmup": 0.0}
    assert loss.weights["regularization"] == 1e-5  # beside it
    with refuses("repr_coef", "encoder_coef"):
        Representation(repr_coef=falling, encoder_coef=falling)


def test_a_part_that_has_not_begun_is_not_computed(masked):
    loss = masked.prepare(Representation(encoder_coef=1.0, recon_coef=1.0))
    calls = []
    loss.parts["reconstruction"].register_forward_pre_hook(lambda *_: calls.append(1))
    batch = masked.batch(masked.images(5))
    batch.wanted = frozenset({"sparsity"})
    assert set(loss(batch, masked.encoder)) == {"sparsity"}
    assert not calls
    batch.wanted = None
    assert set(loss(batch, masked.encoder)) == {"sparsity", "reconstruction"}
    assert len(calls) == 1


@pytest.mark.slow
def test_in_training_a_part_is_computed_from_its_begin_on():
    model = PPO(
        "CnnPolicy",
        Catch(),
        n_steps=8,
        batch_size=32,
        n_epochs=1,
        device="cpu",
        auxiliary={
            "_target_": "reprl.auxiliary.Representation",
            "recon_coef": 1.0,
            "regularize_coef": 1e-5,
            "reconstruction": {"_target_": "reprl.auxiliary.Reconstruction", "begin": 40},
        },
    )
    steps = []
    part = model.auxiliary["representation"].parts["reconstruction"]
    part.register_forward_pre_hook(lambda *_: steps.append(model.num_timesteps))
    model.learn(96)
    assert steps == [64, 96]
    assert model.logger.name_to_value["loss/regularization"] > 0


def test_the_terms_are_those_of_the_parts(masked):
    loss = Representation(encoder_coef=1.0, recon_coef=1.0, contra_coef=1.0, decoder_coef=1.0)
    masked.prepare(loss)
    batch = masked.batch(masked.images(5), returns=torch.randn(5))
    terms = loss(batch, masked.encoder)
    assert set(terms) == set(loss.weights)
    alone = masked.prepare(Sparsity())(batch, masked.encoder)["sparsity"]
    assert terms["sparsity"].item() == alone.item()


def test_a_part_may_ask_for_its_term_by_its_own_name(masked):
    """Here it is 'contrastive', and to itself 'temporal'."""

    class Asking(TemporalContrastive):
        def forward(self, batch, encoder):
            return super().forward(batch, encoder) if batch.wants("temporal") else {}

    loss = Representation(contra_coef=1.0)
    loss.parts["contrastive"] = Asking()
    masked.prepare(loss)
    batch = masked.batch(masked.images(5))
    batch.wanted = frozenset({"contrastive"})
    assert set(loss(batch, masked.encoder)) == {"contrastive"}


def test_momentum_copies_of_parts_move(masked):
    loss = masked.prepare(Representation(contra_coef=1.0))
    copy = loss.parts["contrastive"].key_encoder.copy
    before = copy.linear.bias.clone()
    with torch.no_grad():
        masked.encoder.linear.bias.add_(1.0)
    loss.after_step()
    torch.testing.assert_close(copy.linear.bias, before + 0.05)


def test_without_a_mask_it_is_refused_by_name(unmasked):
    with refuses("'sparsity'", "attention"):
        unmasked.prepare(Representation(encoder_coef=1e-4))


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["contra_coef", "encoder_coef"]),
        ({"contra_coef": 1.0, "contrastive": "contrastiv"}, ["'contrastive'"]),
        ({"contra_coef": 1.0, "contrastive": "none"}, ["contra_coef=1.0", "contrastive"]),
        ({"contra_coef": 1.0, "contrastive": "attention_contrastive"}, ["'coef'"]),
    ],
)
def test_wrong_settings_are_refused(settings, names):
    with refuses(*names):
        Representation(**settings)


@pytest.mark.parametrize("name", [n for n in components.names("auxiliary") if n != "none"])
def test_every_loss_has_one_weight_a_term(masked, name):
    spec = components.resolve("auxiliary", name)
    if name == "motion_target":
        spec["augmentation"] = "shift"  # its own boxes are larger than these pictures
    if name in ("object_target", "saliency_guided"):
        spec["augmentation"] = "none"
    loss = masked.prepare(components.build("auxiliary", spec))
    batch = replace(masked.batch(masked.images(4)), boxes=torch.ones(4, 1, 4))
    assert set(loss(batch, masked.encoder)) == set(loss.weights) == set(loss.begin)
    assert all(weight > 0 for weight in loss.weights.values())
