"""Trunks: SB3's NatureCNN bit for bit, sizes that fit, features of a sane scale."""

import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticCnnPolicy
from stable_baselines3.common.torch_layers import NatureCNN
from stable_baselines3.common.utils import ConstantSchedule

from reprl.components import names, resolve
from reprl.encoders import Impala, Nature, NaturePadded
from tests.helpers import refuses, space


def policy(encoder, **kwargs):
    torch.manual_seed(7)
    return ActorCriticCnnPolicy(
        space(),
        spaces.Discrete(4),
        ConstantSchedule(1e-3),
        net_arch=[],  # SB3 adds two hidden layers to any extractor but its own NatureCNN
        features_extractor_class=encoder,
        features_extractor_kwargs=kwargs,
    )


def test_nature_is_sb3s_network_bit_for_bit():
    stock, ours = policy(NatureCNN), policy(Nature)
    assert list(stock.state_dict()) == list(ours.state_dict())
    for name, value in stock.state_dict().items():
        assert torch.equal(value, ours.state_dict()[name]), name
    observations = torch.randint(0, 256, (5, 4, 84, 84), dtype=torch.uint8)
    state = torch.get_rng_state()
    expected = stock.evaluate_actions(observations, torch.zeros(5))
    torch.set_rng_state(state)
    for a, b in zip(expected, ours.evaluate_actions(observations, torch.zeros(5)), strict=True):
        assert torch.equal(a, b)


def test_gradients_equal_sb3s_bit_for_bit():
    stock, ours = policy(NatureCNN), policy(Nature)
    images = torch.rand(6, 4, 84, 84)
    for p in (stock, ours):
        p.features_extractor(images).square().sum().backward()
    for a, b in zip(stock.parameters(), ours.parameters(), strict=True):
        assert (a.grad is None and b.grad is None) or torch.equal(a.grad, b.grad)


@pytest.fixture(scope="module")
def plain():
    """The parameters of a policy without a mask, and what is drawn next."""
    return policy(Nature).state_dict(), torch.rand(3)


@pytest.mark.parametrize("name", [n for n in names("attention") if n != "none"])
def test_a_mask_leaves_trunk_and_heads_as_they_were(name, plain):
    parameters, drawn = plain
    masked = policy(Nature, attention=resolve("attention", name))
    assert torch.equal(drawn, torch.rand(3))  # the stream that actions will be sampled from
    extra = set(masked.state_dict()) - set(parameters)
    assert extra
    assert all("attention" in key for key in extra)
    for key, value in parameters.items():
        assert torch.equal(value, masked.state_dict()[key]), key


@pytest.mark.parametrize(
    ("encoder", "cells", "features"), [(Nature, 7, 512), (NaturePadded, 10, 512), (Impala, 11, 256)]
)
def test_shapes(encoder, cells, features):
    model = encoder(space())
    output = model.encode(torch.rand(3, 4, 84, 84))
    assert output.features.shape == (3, features) == (3, model.features_dim)
    assert output.feature_map.shape[2:] == (cells, cells)
    assert output.attention is None
    assert torch.equal(
        model(torch.ones(1, 4, 84, 84)), model.encode(torch.ones(1, 4, 84, 84)).features
    )


def test_impala_width_and_pooling():
    wide = Impala(space(), width=2, global_pool=True)
    assert wide.dry_output().feature_map.shape == (1, 64, 11, 11)
    assert wide.linear[0].in_features == 64
    assert Impala(space()).linear[0].in_features == 32 * 11 * 11


def test_features_keep_their_scale_through_impala_under_sb3s_initialisation():
    images = torch.rand(16, 4, 84, 84)
    with torch.no_grad():
        extractor = policy(Impala).features_extractor
        entry = extractor.cnn[1](extractor.cnn[0](images)).std()
        assert 0.2 < extractor.encode(images).feature_map.std() / entry < 5
        for layer in extractor.cnn.modules():  # what SB3's gain alone would have done
            if isinstance(layer, torch.nn.Conv2d):
                torch.nn.init.orthogonal_(layer.weight, 2**0.5)
        assert extractor.encode(images).feature_map.std() / entry > 5


@pytest.mark.parametrize(
    ("encoder", "size", "nearest"),
    [(Nature, 80, "76 and 84"), (Nature, 33, "36 and 44"), (NaturePadded, 83, "82 and 84")],
)
def test_sizes_that_do_not_fit_are_refused_by_name(encoder, size, nearest):
    with refuses(f"{encoder.__name__}", f"{size}x{size}", f"{nearest}"):
        encoder(space(size))


@pytest.mark.parametrize("encoder", [Nature, NaturePadded, Impala])
def test_the_toy_size_fits(encoder):
    assert encoder(space(36)).encode(torch.rand(2, 4, 36, 36)).features.shape[0] == 2


def test_other_spaces_are_refused():
    with refuses("images"):
        Nature(spaces.Discrete(3))


def test_dropout_acts_in_training_only():
    model = Nature(space(), dropout=0.5)
    images = torch.rand(2, 4, 84, 84)
    model.eval()
    whole = model(images)
    assert torch.equal(whole, model(images))
    model.train()
    dropped = model(images)
    kept = dropped != 0
    assert torch.allclose(dropped[kept], 2 * whole[kept])
    assert ((dropped == 0) & (whole > 0)).any()
