"""Masks, losses and augmentations on replay batches: QR-DQN, and SAC, TD3, DDPG on pictures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sb3_contrib
import stable_baselines3
import torch
from sb3_contrib.common.utils import quantile_huber_loss
from torch import Tensor

from reprl import checkpoint
from reprl.algorithms import DDPG, DQN, QRDQN, SAC, TD3
from reprl.augmentation.base import Augmentation, View
from reprl.auxiliary import Contrastive
from reprl.config.schema import load
from reprl.envs import make_vec_env
from reprl.policy import q_forward
from tests.helpers import refuses
from tests.reprl.algorithms.parts import ENCODER
from tests.toys.catch import SMALL_ENCODER, Catch

KINDS = [SAC, TD3, DDPG]
GAMES: Any = {"size": 36, "stack": 2, "n_envs": 2, "seed": 1, "max_frames": 400}
SMALL: dict[str, Any] = {"buffer_size": 64, "learning_starts": 8, "batch_size": 8, "seed": 3}
SMALL |= {"device": "cpu"}
SHIFT = {"_target_": "reprl.augmentation.Shift", "pixels": 2, "use": "views"}
LOSS = {"_target_": "reprl.auxiliary.Contrastive", "coef": 0.5}
SILENT = LOSS | {"coef": 0.0}
FAST_MASK = {"_target_": "reprl.encoders.masks.ConvMask", "optimizer": {"learning_rate": 0.5}}


class Painted(Augmentation):
    """Every pixel becomes 7."""

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        return View(torch.full_like(observations, 7))


PAINTED = {"_target_": f"{__name__}.Painted"}


@pytest.fixture
def games() -> Any:
    """Two games by a stick, each time from their beginning."""
    return lambda: make_vec_env(continuous=True, **GAMES)


def same(a: Any, b: Any) -> bool:
    pairs = zip(a.policy.state_dict().values(), b.policy.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def stick(kind: Any, games: Any, **settings: Any) -> Any:
    return kind("CnnPolicy", games(), **SMALL | {"encoder": SMALL_ENCODER} | settings)


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_are_sb3s_too_and_a_loss_of_no_weight_changes_nothing(
    kind: Any, games: Any
) -> None:
    def made(of: Any = kind, **more: Any) -> Any:
        arch = {"policy_kwargs": {"net_arch": [8]}}  # SB3 writes into it
        return of("CnnPolicy", games(), **arch, **SMALL, **more).learn(20)

    stock = made(getattr(stable_baselines3, kind.__name__))
    assert same(stock, made())
    assert same(stock, made(encoder=ENCODER, auxiliary=SILENT, augmentation=SHIFT))
    assert not same(stock, made(encoder=ENCODER, auxiliary=LOSS, augmentation=SHIFT))
    assert not same(stock, made(encoder=ENCODER, augmentation="shift"))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_trains_the_critics_encoder_and_mask(kind: Any, shared: bool, games: Any) -> None:
    given = {"attention": "conv", "auxiliary": LOSS, "share_encoder": shared}
    model = stick(kind, games, **given).learn(16)
    drawn, batch = model._sample(8)
    view = model.losses.view(batch.observations)
    output = q_forward(model.critic, view.observations)
    nothing = torch.zeros(())
    seen = (view, batch.actions, batch, drawn, lambda features, _: nothing)
    loss, found = model._with_losses(nothing, output, *seen)
    assert found["loss/contrastive"] == pytest.approx(loss.item() / 0.5)
    encoder = dict(model.critic.features_extractor.named_parameters())
    assert any("attention" in name for name in encoder)
    slopes = torch.autograd.grad(loss, list(encoder.values()))
    assert all(slope.abs().sum() > 0 for slope in slopes)
    own = {id(p) for p in model.actor.parameters()}
    moved = {id(p) for group in model.actor.optimizer.param_groups for p in group["params"]}
    assert own == moved
    assert not own & {id(p) for p in encoder.values()}
    acting = model.actor.features_extractor(torch.rand(3, 2, 36, 36))
    assert acting.requires_grad == (not shared)
    assert any("features_extractor" in n for n, _ in model.actor.named_parameters()) != shared


@pytest.mark.parametrize("kind", KINDS)
def test_a_shared_encoder_is_one_that_only_the_critic_moves(kind: Any, games: Any) -> None:
    model = stick(kind, games, share_encoder=True).learn(16)
    images = torch.rand(3, 2, 36, 36)
    assert torch.equal(
        model.actor.features_extractor(images), model.critic.features_extractor(images)
    )
    if kind is not SAC:
        pair = model.actor_target.features_extractor, model.critic_target.features_extractor
        assert torch.equal(pair[0](images), pair[1](images))
        assert not torch.equal(pair[0](images), model.actor.features_extractor(images))
    before = {n: p.clone() for n, p in model.critic.features_extractor.named_parameters()}
    loss = model.actor(model.replay_buffer.sample(4).observations).sum()
    model.actor.optimizer.zero_grad()
    loss.backward()
    model.actor.optimizer.step()
    for name, value in model.critic.features_extractor.named_parameters():
        assert torch.equal(before[name], value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_and_the_one_after_it_are_augmented(kind: Any, games: Any) -> None:
    model = stick(kind, games, augmentation=PAINTED).learn(12)
    shown: dict[str, list[Tensor]] = {}
    networks = ["actor", "critic", "critic_target", *(["actor_target"] if kind is not SAC else [])]
    for name in networks:
        extractor = getattr(model, name).features_extractor
        extractor.register_forward_pre_hook(
            lambda _, inputs, name=name: shown.setdefault(name, []).append(inputs[0])
        )
    encoder = model.critic.features_extractor  # q_forward encodes without calling it
    model._n_updates = 1  # TD3's actor moves in every second step
    model.train(1, 8)
    assert {*shown} >= {*networks} - {"critic"}
    for name, pictures in shown.items():
        for each in pictures:
            assert torch.equal(each, torch.full_like(each, 7 / 255)), name
    assert encoder is model.critic.features_extractor


@pytest.mark.parametrize("kind", KINDS)
def test_with_everything_it_goes_on_bit_for_bit_from_its_checkpoint(
    kind: Any, games: Any, tmp_path: Path
) -> None:
    losses = {
        "near": LOSS | {"tau": 0.01},
        "time": {"_target_": "reprl.auxiliary.TemporalContrastive"},
        "svea": {"_target_": "reprl.auxiliary.Svea"},
    }
    extras = {"attention": "conv", "auxiliary": losses, "augmentation": "shift", "n_steps": 2}
    whole = stick(kind, games, **extras, noise="normal", share_encoder=kind is not TD3)
    whole.learn(24)
    checkpoint.save(whole, tmp_path)
    whole.learn(12, reset_num_timesteps=False)
    again = checkpoint.load(tmp_path, games())
    again.learn(12, reset_num_timesteps=False)
    assert same(whole, again)
    ours, theirs = (model.losses.modules.state_dict() for model in (whole, again))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    player = checkpoint.load(tmp_path).player()  # without an environment
    shown = np.zeros((2, 2, 36, 36), np.uint8)
    assert player.actions(shown, np.zeros(2), deterministic=True).shape == (2, 3)


CATCH: dict[str, Any] = SMALL | {"buffer_size": 120, "learning_starts": 16, "n_quantiles": 10}


def catch(**settings: Any) -> QRDQN:
    return QRDQN("CnnPolicy", Catch(), **CATCH | {"encoder": SMALL_ENCODER} | settings)


def test_quantiles_with_a_silent_loss_are_sb3_contribs(tmp_path: Path) -> None:
    given = {k: v for k, v in CATCH.items() if k != "n_quantiles"}
    layers = {"n_quantiles": 10}
    stock = sb3_contrib.QRDQN("CnnPolicy", Catch(), policy_kwargs=layers, **given).learn(64)
    silent = catch(encoder=ENCODER, auxiliary=SILENT, augmentation=SHIFT)
    assert same(stock, silent.learn(64))
    plain = catch().learn(64)
    assert not same(plain, catch(auxiliary=LOSS, augmentation=SHIFT).learn(64))
    extras: dict[str, Any] = {"attention": "conv", "augmentation": "shift"}
    extras["auxiliary"] = ["contrastive", "spr", "svea"]
    whole = catch(**extras, n_steps=3).learn(64)
    checkpoint.save(whole, tmp_path)
    whole.learn(40, reset_num_timesteps=False)
    again = checkpoint.load(tmp_path, Catch())
    again.learn(40, reset_num_timesteps=False)
    assert same(whole, again)


def test_the_quantile_loss_is_that_of_painted_pictures() -> None:
    model = catch(augmentation=PAINTED).learn(40)
    assert model.replay_buffer is not None
    state = np.random.get_state()
    batch = model.replay_buffer.sample(8)
    np.random.set_state(state)
    painted = torch.full((1, 4, 36, 36), 7, dtype=torch.uint8)
    with torch.no_grad():
        after = model.quantile_net_target(painted)[0]  # (quantiles, A), the same for all
        best = after[:, after.mean(0).argmax()]
        targets = batch.rewards + (1 - batch.dones) * 0.99 * best
        now = model.quantile_net(painted)[0].T[batch.actions.flatten()]
        expected = quantile_huber_loss(now, targets, sum_over_quantiles=True).item()
    model.train(1, 8)
    assert model.logger.name_to_value["train/loss"] == pytest.approx(expected, rel=1e-5)


def test_in_curl_the_contrastive_loss_alone_sees_shifted_pictures() -> None:
    config = load(["device=cpu", "experiment=curl"])
    parts = {"auxiliary": config.auxiliary, "augmentation": config.augmentation}
    model = DQN("CnnPolicy", Catch(), **SMALL | {"encoder": SMALL_ENCODER} | parts).learn(16)
    _, batch = model._sample(8)
    assert model.losses.view(batch.observations).observations is batch.observations
    (loss,) = model.losses.terms.each()
    assert isinstance(loss, Contrastive)
    view = loss.views(batch.observations, torch.Generator().manual_seed(0)).observations
    assert not torch.equal(view, batch.observations)


@pytest.mark.parametrize("kind", [DQN, SAC])
def test_a_mask_keeps_a_rate_of_its_own(kind: Any, games: Any) -> None:
    given = SMALL | {"encoder": SMALL_ENCODER, "attention": FAST_MASK, "learning_rate": 1e-4}
    model = kind("CnnPolicy", Catch() if kind is DQN else games(), **given).learn(16)
    optimizers = [model.policy.optimizer] if kind is DQN else [model.critic.optimizer]
    if kind is SAC:
        optimizers.append(model.actor.optimizer)
    for optimizer in optimizers:
        assert sorted(group["lr"] for group in optimizer.param_groups) == [1e-4, 0.5]


def test_what_cannot_be_is_said(games: Any) -> None:
    with refuses("spr", "actions_at"):
        stick(SAC, games, auxiliary="spr")
    with refuses("drac", "log_probs"):
        stick(TD3, games, auxiliary="drac")
    with refuses("mirrors", "LEFT and RIGHT"):
        stick(SAC, games, augmentation="flip")
    stick(SAC, games, auxiliary=LOSS | {"augmentation": "flip"})  # views need no actions
    with refuses("share_features_extractor", "algo.share_encoder=true"):
        shared = {"share_features_extractor": True}
        stick(SAC, games, auxiliary=LOSS, policy_kwargs=shared)
    with refuses("share_encoder=3"):
        stick(SAC, games, share_encoder=3)
    numbers = make_vec_env(game="gymnasium/Pendulum-v1", n_envs=1, seed=3)
    with refuses("pictures"):
        SAC("MlpPolicy", numbers, auxiliary="contrastive", **SMALL)
    with refuses("pictures"):
        SAC("MlpPolicy", numbers, attention="conv", **SMALL)
    with refuses("value_prediction", "returns"):
        catch(auxiliary="value_prediction")
