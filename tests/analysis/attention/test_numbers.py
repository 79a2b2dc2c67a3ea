"""Agents that act with numbers: what explains them, held to SB3's own networks and by hand."""

from typing import Any

import numpy as np
import pytest
import torch

from reprl.algorithms import SAC, TD3
from reprl.analysis.attention.network import Network, network_of
from reprl.analysis.attention.record import collect, uniform
from reprl.analysis.attention.views import Attribution, limits, look, make_view
from reprl.envs import make_vec_env
from reprl.evaluation.play_loop import PlayLoop
from reprl.schema import ATTRIBUTIONS
from tests.helpers import refuses

SEEN: dict[str, Any] = {"size": 36, "stack": 2, "continuous": True}
KINDS: dict[str, tuple[type, bool]] = {
    "sac": (SAC, False),
    "sac shared": (SAC, True),
    "td3": (TD3, False),
}
EXPLAINING = [method for method in ATTRIBUTIONS if method != "mask"]


def built(kind: type, share: bool, **parts: Any) -> Any:
    env = make_vec_env(n_envs=2, seed=1, max_frames=400, **SEEN)
    small = {"buffer_size": 40, "learning_starts": 4, "batch_size": 4, "seed": 3, "device": "cpu"}
    encoder = {"name": "nature", "features_dim": 16}
    return kind("CnnPolicy", env, encoder=encoder, share_encoder=share, **small, **parts)


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Any:
    kind, share = KINDS[request.param]
    return built(kind, share).learn(12)


@pytest.fixture(scope="module")
def network(model: Any) -> Network:
    return network_of(model)


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (3, 2, 36, 36)).astype(np.uint8)


def value(model: Any, images: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """The first critic's values, encoded with a gradient, which SB3's q1_forward has not."""
    return model.critic(images * 255, actions)[0].flatten()


def test_it_is_sb3s_actor_and_first_critic(
    model: Any, network: Network, pictures: np.ndarray
) -> None:
    images, seen = network.images(pictures), torch.as_tensor(pictures)
    expected, _ = model.predict(pictures, deterministic=True)
    best = network.best(images)
    np.testing.assert_allclose(model.policy.unscale_action(best.numpy()), expected, atol=1e-6)
    with torch.no_grad():
        q = model.critic.q1_forward(seen, best).flatten()
    torch.testing.assert_close(network.worth(images, best), q)
    values, features = network.player.read(pictures)
    np.testing.assert_allclose(values, q, atol=1e-6)
    np.testing.assert_allclose(features, network.extractor(images).detach(), atol=1e-6)
    with refuses("continuous actions", "discrete"):
        network.outputs(pictures, ())


def test_gradients_are_those_of_the_value_with_the_action_held(
    model: Any, network: Network, pictures: np.ndarray
) -> None:
    images = network.images(pictures).requires_grad_()
    held = network.best(images.detach())
    (slope,) = torch.autograd.grad(value(model, images, held).sum(), images)
    cells = look(make_view(network, "gradient"), pictures)
    torch.testing.assert_close(cells, slope[:, -1:].abs(), rtol=1e-3, atol=1e-9)
    assert (cells.amax(dim=(2, 3)) > 0).all()


def test_integrated_gradients_add_up_to_the_value(network: Network, pictures: np.ndarray) -> None:
    images = network.images(pictures)
    held, view = network.best(images), make_view(network, "integrated")
    view.steps = 200  # type: ignore[attr-defined]
    shares = view._attribute(images, held, ())  # type: ignore[attr-defined]
    gained = network.worth(images, held) - network.worth(torch.zeros_like(images), held)
    torch.testing.assert_close(shares.sum(dim=(1, 2, 3)), gained.detach(), rtol=1e-2, atol=1e-4)


def test_a_spot_is_scored_by_how_far_the_action_moves(
    network: Network, pictures: np.ndarray
) -> None:
    from reprl.analysis.attention.views import blur

    view: Any = make_view(network, "perturbation")
    images = network.images(pictures[:1])
    spot = view.spots[10][None, None]
    changed = images * (1 - spot) + blur(images, view.blur) * spot
    moved = network.best(changed) - network.best(images)
    found = view.cells(images).flatten()[10]
    torch.testing.assert_close(found, 0.5 * moved.square().sum(), rtol=0.01, atol=0.0)
    assert found > 0


@pytest.mark.parametrize("method", EXPLAINING)
def test_every_method_is_drawn_and_says_what_it_explains(
    model: Any, network: Network, pictures: np.ndarray, method: str
) -> None:
    before = {k: v.clone() for k, v in model.policy.state_dict().items()}
    view = make_view(network, method)
    cells = look(view, pictures)
    assert cells.shape[:2] == (3, 1)
    assert torch.isfinite(cells).all()
    assert cells.min() >= 0
    assert all(torch.equal(v, before[k]) for k, v in model.policy.state_dict().items())
    explained = "the action" if method == "perturbation" else "the critic's value"
    assert view.words == f"{method} of {explained}"
    said = " ".join(limits(view, method))
    assert ("preferred actions" if method == "perturbation" else "first critic's values") in said
    apart = method != "perturbation" and not model.share_encoder
    assert ("encoder of its own" in said) == apart


def test_a_critic_with_an_encoder_of_its_own_is_what_gradcam_looks_at(
    model: Any, network: Network, pictures: np.ndarray
) -> None:
    assert network.judge is model.critic.features_extractor
    assert (network.extractor is network.judge) == model.share_encoder
    view: Any = make_view(network, "gradcam")
    assert any(view.layer is layer for layer in network.judge.modules())


def test_a_mask_is_the_actors_and_goes_before() -> None:
    model = built(SAC, share=False, attention="conv")
    view: Any = make_view(network_of(model))
    assert view.words == view.name == "mask"
    assert view.encoder is model.actor.features_extractor
    assert limits(view, None) == []


def test_its_own_games_and_random_ones_are_recorded(network: Network) -> None:
    view: Attribution = make_view(network, "gradient")
    own = collect(view, "original", steps=24, n_envs=2, seed=1, settings=SEEN)
    random = collect(view, "original", steps=24, n_envs=2, seed=1, player=uniform(1), settings=SEEN)
    assert (own.player, random.player) == ("agent", "random")
    assert own.probabilities.shape == (24, 0)
    assert own.objects is not None
    assert np.abs(own.observations.astype(int) - random.observations).max() > 0


def test_a_loop_plays_what_the_actor_says(model: Any, network: Network) -> None:
    env = make_vec_env(n_envs=2, seed=4, **SEEN)
    loop, uniforms = PlayLoop(env, network), np.array([0.2, 0.7])
    best, _ = model.predict(loop.observations, deterministic=True)
    np.testing.assert_allclose(loop.choose(uniforms, deterministic=True), best, atol=1e-6)
    drawn = loop.choose(uniforms)
    assert np.array_equal(
        drawn,
        network.player.actions(  # type: ignore[attr-defined]
            loop.observations, uniforms, deterministic=False
        ),
    )
    assert env.action_space.contains(drawn[0])
    env.close()
