"""Saliency methods on networks whose answer is known, and on SB3's stock policy."""

import numpy as np
import pytest
import torch
from stable_baselines3 import A2C
from torch import nn
from toys import REGION, RegionNetwork, ball_model

from reprl.analysis.attention.network import kl, network_of
from reprl.analysis.attention.views import (
    GradCam,
    Perturbation,
    last_map,
    look,
    make_view,
    pixel_maps,
)
from reprl.envs.vector import make_vec_env
from reprl.schema import ATTRIBUTIONS
from tests.helpers import refuses


@pytest.fixture(scope="module")
def observations():
    env = make_vec_env(n_envs=2, seed=4)
    seen = [env.reset()]
    for step in range(6):
        seen.append(env.step(np.array([step % 4, (step + 1) % 4]))[0])
    return np.concatenate(seen[2:])  # (10, 4, 84, 84)


@pytest.fixture(scope="module")
def stock():
    return A2C("CnnPolicy", make_vec_env(n_envs=1), seed=0)


def noise(count=3):
    return np.random.default_rng(0).integers(1, 256, (count, 4, 84, 84)).astype(np.uint8)


def test_network_is_the_policy_itself(stock, observations):
    network = network_of(stock)
    images = network.images(observations)
    tensors = torch.as_tensor(observations)
    with torch.no_grad():
        expected = stock.policy.get_distribution(tensors).distribution.probs
        values = stock.policy.predict_values(tensors)[:, 0]
        # SB3 normalises its logits before the softmax: the last bit differs.
        torch.testing.assert_close(network(images).softmax(dim=1), expected, rtol=0, atol=1e-6)
    outputs, _ = network.outputs(observations, ())
    np.testing.assert_allclose(outputs.values, values, atol=1e-6)
    np.testing.assert_allclose(outputs.probs, expected, atol=1e-6)


def test_gradients_are_the_weights():
    network = RegionNetwork()
    maps = pixel_maps(view := make_view(network, "gradient"), look(view, noise()), 84)
    np.testing.assert_allclose(maps, np.broadcast_to(network.weights.detach(), maps.shape))


def test_integrated_gradients_are_weight_times_input():
    network, observations = RegionNetwork(), noise()
    cells = look(make_view(network, "integrated"), observations)[:, 0].numpy()
    expected = network.weights.detach().numpy() * observations[:, -1] / 255
    np.testing.assert_allclose(cells, expected, rtol=1e-4, atol=1e-6)


def test_perturbation_points_into_the_region_and_is_blind_elsewhere():
    view = Perturbation(RegionNetwork())
    maps = pixel_maps(view, look(view, noise()), 84)
    for m in maps:
        y, x = np.unravel_index(m.argmax(), m.shape)
        assert 14 <= y <= 34
        assert 44 <= x <= 64
    assert maps[:, 60:, :20].max() < 1e-6 * maps.max()


def test_perturbation_by_hand():
    """One spot: 0.5 ||pi - pi'||^2 of the picture mixed with its blur, written out again."""
    import cv2

    network, observations = RegionNetwork(), noise(1)
    view = Perturbation(network)
    scores = look(view, observations)[0, 0]
    image = observations[0] / 255
    row, column = 6, 13  # a spot in the region
    centre = (np.array([row, column]) + 0.5) * 4 - 0.5
    y, x = np.mgrid[:84, :84]
    spot = np.exp(-((y - centre[0]) ** 2 + (x - centre[1]) ** 2) / (2 * 5.0**2))
    changed = image[-1] * (1 - spot) + cv2.GaussianBlur(image[-1], (0, 0), 3.0) * spot
    s = 0.4 * (image[-1][REGION].sum() - changed[REGION].sum())
    assert float(scores[row, column]) == pytest.approx(0.5 * (s**2 + s**2), rel=1e-3)


def test_gradcam_by_hand():
    network = network_of(A2C("CnnPolicy", make_vec_env(n_envs=1), seed=1))
    images = network.images(noise(2))
    cells = GradCam(network).cells(images)
    with torch.no_grad():
        feature_map = nn.Sequential(*list(network.extractor.cnn)[:-1])(images)
    feature_map.requires_grad_()
    hidden = network.extractor.linear(feature_map.flatten(1))
    logits = network.policy.action_net(hidden)
    logits.max(dim=1).values.sum().backward()
    weights = feature_map.grad.mean(dim=(2, 3), keepdim=True)
    expected = (weights * feature_map).sum(dim=1, keepdim=True).relu()
    torch.testing.assert_close(cells, expected.detach())


def test_gradcam_knows_where_natures_cells_are(stock):
    _, cells = last_map(network_of(stock))
    assert cells.rows.centres().tolist() == [17.5 + 8 * i for i in range(7)]


@pytest.mark.parametrize("method", [m for m in ATTRIBUTIONS if m != "mask"])
def test_every_method_works_on_the_stock_policy(stock, observations, method):
    before = {k: v.clone() for k, v in stock.policy.state_dict().items()}
    view = make_view(network_of(stock), method)
    cells = look(view, observations[:2])
    maps, raw = pixel_maps(view, cells, 84), pixel_maps(view, cells, (210, 160))
    assert maps.shape == (2, 84, 84)
    assert raw.shape == (2, 210, 160)
    assert maps.min() >= 0
    np.testing.assert_allclose(maps.sum((1, 2)), cells.sum((1, 2, 3)), rtol=1e-4)
    np.testing.assert_allclose(raw.sum((1, 2)), cells.sum((1, 2, 3)), rtol=1e-4)
    left = view.visibility(cells)
    assert 0 <= float(left.min()) <= float(left.max()) <= 1 + 1e-6
    for name, value in stock.policy.state_dict().items():
        assert torch.equal(value, before[name])
    assert all(p.grad is None for p in stock.policy.parameters())


def test_the_mask_is_the_default_where_there_is_one(stock):
    assert make_view(network_of(ball_model())).name == "mask"
    assert make_view(network_of(stock)).name == "gradient"
    with refuses("attention mask"):
        make_view(network_of(stock), "mask")
    with refuses("'gradcam'"):
        make_view(network_of(stock), "gradcan")


def test_with_a_mask_per_frame_the_newest_is_shown(observations):
    from reprl.algorithms import A2C as Ours

    model = Ours("CnnPolicy", make_vec_env(n_envs=1), encoder="nature", attention="per_frame")
    network = network_of(model)
    cells = look(make_view(network), observations)
    with torch.no_grad():
        every = network.extractor.encode(network.images(observations)).attention
    assert every.shape[1] == 4
    torch.testing.assert_close(cells, every[:, 3:])
    assert not torch.allclose(every[:, 3:], every[:, :1])


def test_kl_by_hand():
    p, q = torch.tensor([[0.0, 0.0]]), torch.log(torch.tensor([[0.8, 0.2]]))
    expected = 0.5 * np.log(0.5 / 0.8) + 0.5 * np.log(0.5 / 0.2)
    assert float(kl(p, q)[0]) == pytest.approx(expected)
