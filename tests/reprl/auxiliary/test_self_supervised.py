"""SPR, inverse dynamics, BYOL and VAE: by hand, where their gradient goes, what they learn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from reprl.algorithms import A2C, PPO
from reprl.algorithms.frame_buffer import FrameMemory
from reprl.algorithms.rollout_buffer import RolloutMemory
from reprl.auxiliary import Byol, InverseDynamics, SelfPrediction, VariationalAutoencoder
from reprl.auxiliary.base import Batch
from reprl.auxiliary.self_prediction import normalized_distance, rescaled
from reprl.auxiliary.vae import divergence
from tests.helpers import refuses
from tests.reprl.auxiliary.test_temporal import Film
from tests.toys.catch import SMALL_ENCODER, Catch

NEW = ("spr", "inverse_dynamics", "byol", "vae")


def batch_of(world: Any, film: Film, actions: Tensor) -> Batch:
    """A batch of a film's frames, in which actions[t] follows frames[t]."""
    batch = world.batch(film.frames, actions=actions, at=film.at)

    def actions_at(offset: int) -> tuple[Tensor, Tensor]:
        place, valid = Film(torch.arange(len(actions)), ()).at(offset)
        return actions[place], valid

    batch.actions_at = actions_at
    return batch  # type: ignore[no-any-return]


def test_distances_of_directions_by_hand() -> None:
    guess = torch.tensor([[3.0, 0.0], [1.0, 1.0], [0.0, -2.0]])
    target = torch.tensor([[5.0, 0.0], [0.0, 2.0], [0.0, 7.0]])
    expected = (0.0 + (2 - math.sqrt(2)) + 4.0) / 3
    assert normalized_distance(guess, target).item() == pytest.approx(expected, abs=1e-6)
    assert normalized_distance(guess[:0], target[:0]).item() == 0.0


def test_maps_are_rescaled_sample_by_sample() -> None:
    cells = torch.tensor([[[[1.0, 3.0]]], [[[-2.0, 8.0]]]])
    assert rescaled(cells).flatten().tolist() == pytest.approx([0, 1, 0, 1], abs=1e-4)


def test_spr_by_hand_with_an_episode_end(unmasked: Any) -> None:
    loss = unmasked.prepare(SelfPrediction(steps=2, latent=4))
    film = Film(unmasked.images(6), ends=(3,))
    actions = torch.tensor([2, 0, 1, 1, 0, 2])
    value = loss(batch_of(unmasked, film, actions), unmasked.encoder)["spr"].item()

    images = film.frames.float() / 255
    cells = rescaled(unmasked.encoder.encode(images).feature_map)  # the momentum copy is its equal
    expected = 0.0
    for k in (1, 2):
        rows = []
        for start in (0, 3):  # 0-1-2 and 3-4-5 lie in one episode each
            state = cells[start : start + 1]
            for step in range(k):
                planes = torch.zeros(1, 3, 8, 8)
                planes[:, actions[start + step]] = 1
                state = rescaled(loss.model(torch.cat([state, planes], 1)))
            p = loss.predictor(loss.projection(state.flatten(1)))[0]
            t = loss.projection(cells[start + k].flatten())
            rows.append((p / p.norm() - t / t.norm()).square().sum().item())
        expected += sum(rows) / 2
    assert value == pytest.approx(expected, rel=1e-4)
    other = loss(batch_of(unmasked, film, (actions + 1) % 3), unmasked.encoder)["spr"].item()
    assert other != pytest.approx(expected, rel=1e-4)


def test_inverse_dynamics_by_hand_with_an_episode_end(unmasked: Any) -> None:
    loss = unmasked.prepare(InverseDynamics(hidden=6))
    film = Film(unmasked.images(4), ends=(2,))
    actions = torch.tensor([2, 0, 1, 0])
    batch = batch_of(unmasked, film, actions)
    value = loss(batch, unmasked.encoder)["inverse_dynamics"].item()
    f = batch.output.features
    expected = 0.0
    for before, after in ((0, 1), (2, 3)):  # 1-2 crosses the end
        logits = loss.head(torch.cat([f[before], f[after]]))
        expected -= logits.log_softmax(0)[actions[before]].item() / 2
    assert value == pytest.approx(expected, rel=1e-5)


def test_byol_by_hand(unmasked: Any) -> None:
    loss = unmasked.prepare(Byol(latent=4, hidden=5))  # views that change nothing
    batch = unmasked.batch(unmasked.images(3))
    value = loss(batch, unmasked.encoder)["byol"].item()
    z = loss.projection(batch.output.features)
    q = loss.predictor(z)
    rows = [(q[i] / q[i].norm() - z[i] / z[i].norm()).square().sum().item() for i in range(3)]
    assert value == pytest.approx(sum(rows) / 3, rel=1e-4)


def test_the_vaes_divergence_by_hand() -> None:
    mean = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    log_variance = torch.tensor([[0.0, 0.0], [math.log(4.0), 0.0]])
    # 0.5, and 0.5 (4 - 1 - ln 4) + 0.5 * 4
    expected = (0.5 + 0.5 * (3 - math.log(4)) + 2.0) / 2
    assert divergence(mean, log_variance).item() == pytest.approx(expected)


def test_the_vaes_error_by_hand(unmasked: Any) -> None:
    loss = unmasked.prepare(VariationalAutoencoder(latent=3, shrink=2))
    with torch.no_grad():
        loss.log_variance.weight.zero_()
        loss.log_variance.bias.fill_(-50.0)  # held at -10: hardly any noise
        loss.head.paint.weight.zero_()
        loss.head.paint.bias.fill_(0.25)
    observations = torch.full((2, 2, 8, 8), 255, dtype=torch.uint8)
    terms = loss(unmasked.batch(observations), unmasked.encoder)
    assert terms["vae"].item() == pytest.approx(0.75**2)
    assert set(terms) == {"vae", "vae_kl"} == set(loss.weights)
    assert loss.weights == {"vae": 0.05, "vae_kl": 1e-5}


@pytest.mark.parametrize("kind", [SelfPrediction, InverseDynamics, Byol])
def test_where_the_gradient_goes(unmasked: Any, kind: Any) -> None:
    reach = {"steps": 2} if kind is SelfPrediction else {}
    loss = unmasked.prepare(kind(**reach))
    film = Film(unmasked.images(8))
    reached = unmasked.reached(loss, batch_of(unmasked, film, torch.arange(8) % 3))
    assert any(name.startswith("encoder.trunk") for name in reached)
    assert any(name.startswith("loss.") for name in reached)
    assert not any(name.startswith(("actor", "critic", "loss.key")) for name in reached)


def test_spr_foretells_what_the_action_did(unmasked: Any) -> None:
    """A light goes where the action sends it: after training, other actions foretell worse."""
    loss = unmasked.prepare(SelfPrediction(steps=1, latent=16, tau=0.05))
    rng = torch.Generator().manual_seed(0)

    def moved() -> tuple[Film, Tensor]:
        actions = torch.randint(0, 3, (64,), generator=rng)
        frames = torch.zeros(64, 2, 8, 8, dtype=torch.uint8)
        for t in range(1, 64):
            frames[t, :, :, 2 * int(actions[t - 1]) : 2 * int(actions[t - 1]) + 2] = 255
        return Film(frames), actions

    def batch() -> Batch:
        return batch_of(unmasked, *moved())

    values = unmasked.train(loss, batch, steps=60, rate=3e-3)
    assert sum(values[-5:]) < 0.5 * sum(values[:5])
    film, actions = moved()
    right = loss(batch_of(unmasked, film, actions), unmasked.encoder)["spr"].item()
    wrong_batch = batch_of(unmasked, film, (actions + 1) % 3)
    assert loss(wrong_batch, unmasked.encoder)["spr"].item() > 1.5 * right


def test_inverse_dynamics_learns_what_the_action_moves(unmasked: Any) -> None:
    loss = unmasked.prepare(InverseDynamics(hidden=16))
    rng = torch.Generator().manual_seed(0)

    def batch() -> Batch:
        actions = torch.randint(0, 3, (32,), generator=rng)
        frames = torch.randint(0, 50, (32, 2, 8, 8), generator=rng).byte()
        for t in range(1, 32):
            frames[t, :, 2 * int(actions[t - 1])] = 255
        return batch_of(unmasked, Film(frames), actions)

    values = unmasked.train(loss, batch, steps=60, rate=3e-3)
    assert values[0] > 0.8
    assert values[-1] < 0.2


def test_byol_brings_noisy_views_together_and_does_not_collapse(unmasked: Any, noise: Any) -> None:
    loss = unmasked.prepare(Byol(latent=8, hidden=16), noise)
    images = torch.zeros(8, 2, 8, 8, dtype=torch.uint8)
    for i in range(8):
        images[i, :, i] = 200

    noise.strength = 60

    def spread() -> tuple[float, float]:
        """How far views of one picture lie apart, as a share of how far pictures do; and these."""
        with torch.no_grad():
            views = [noise(images, unmasked.generator).observations.float() / 255 for _ in "ab"]
            a, b = (unmasked.encoder.encode(view).features for view in views)
        apart = (a[:, None] - a[None]).norm(dim=2).mean()
        return ((a - b).norm(dim=1).mean() / apart).item(), apart.item()

    before = spread()
    values = unmasked.train(loss, lambda: unmasked.batch(images), steps=60, rate=3e-3)
    assert sum(values[-5:]) < 0.5 * sum(values[:5])
    after = spread()
    assert after[0] < 0.95 * before[0]
    assert after[1] > before[1]  # not collapsed


def test_the_vae_paints_what_it_saw(unmasked: Any) -> None:
    loss = unmasked.prepare(VariationalAutoencoder(latent=8, shrink=1))
    images = torch.zeros(8, 2, 8, 8, dtype=torch.uint8)
    for i in range(8):
        images[i, :, i] = 255
    learned = [*unmasked.encoder.parameters(), *loss.parameters()]
    optimizer = torch.optim.Adam(learned, lr=1e-2)
    errors = []
    for _ in range(150):
        terms = loss(unmasked.batch(images), unmasked.encoder)
        optimizer.zero_grad()
        (terms["vae"] + 1e-4 * terms["vae_kl"]).backward()
        optimizer.step()
        errors.append(terms["vae"].item())
    blank = 7 / 64  # the error of painting every pixel's mean
    assert errors[-1] < 0.5 * blank


def test_momentum_copies_move_and_take_no_gradient(unmasked: Any) -> None:
    for loss in (SelfPrediction(steps=1, tau=0.5), Byol(tau=0.5)):
        made = unmasked.prepare(loss)
        assert all("key_" in n for n, p in made.named_parameters() if not p.requires_grad)
        with torch.no_grad():
            made.projection.weight.add_(2.0) if hasattr(made.projection, "weight") else None
            unmasked.encoder.trunk.bias.add_(4.0)
        before = made.key_encoder.copy.trunk.bias.clone()
        made.after_step()
        assert torch.allclose(made.key_encoder.copy.trunk.bias, before + 2.0)
        assert {n for n in made.state_dict() if n.startswith("key_encoder.copy.")}


# -- in an agent ----------------------------------------------------------------------------------


def agent(kind: Any = PPO, seed: int = 0, **more: Any) -> Any:
    settings = {"n_steps": 8, "batch_size": 16, "n_epochs": 1} if kind is PPO else {"n_steps": 5}
    return kind("CnnPolicy", Catch(), encoder=SMALL_ENCODER, seed=seed, **settings, **more)


def test_weight_zero_leaves_the_policy_bit_identical() -> None:
    plain = agent().learn(64).policy.state_dict()
    weights = {"coef": 0.0}
    specs = {name: _spec(name) | weights for name in NEW}
    specs["vae"] |= {"kl_coef": 0.0}
    loaded = agent(auxiliary=specs).learn(64).policy.state_dict()
    assert all(torch.equal(plain[name], loaded[name]) for name in plain)
    trained = agent(auxiliary={"spr": _spec("spr") | {"coef": 1.0}}).learn(64).policy.state_dict()
    assert not all(torch.equal(plain[name], trained[name]) for name in plain)


@pytest.mark.parametrize("kind", [A2C, PPO])
def test_all_of_them_go_on_exactly(kind: Any) -> None:
    """Momentum copies, the actions of the steps before, and the noise are part of the state."""
    specs = {name: _spec(name) for name in NEW}
    steps = 40 if kind is A2C else 64
    whole = agent(kind, auxiliary=specs).learn(2 * steps)
    captured = agent(kind, auxiliary=specs).learn(steps).capture()
    second = agent(kind, auxiliary=specs)
    second.restore(captured)
    second.learn(steps, reset_num_timesteps=False)
    for name, tensor in whole.capture().parameters.items():
        assert torch.equal(tensor, second.capture().parameters[name]), name


def _spec(name: str) -> dict[str, Any]:
    from reprl.components import resolve

    found = resolve("auxiliary", name)
    assert found is not None
    return found | ({"steps": 2} if name == "spr" else {})


@pytest.mark.parametrize("memory", [RolloutMemory, FrameMemory])
def test_actions_of_neighbours_reach_into_the_rollout_before(memory: Any) -> None:
    env = Catch(2)
    space, actions = env.observation_space, env.action_space
    buffer = memory(4, space, actions, "cpu", n_envs=2)
    buffer.history, buffer.wants_actions = 2, True
    frame = np.zeros((2, *space.shape), np.uint8)
    for rollout in range(2):
        buffer.reset()
        for t in range(4):
            played = np.array([10 * rollout + t, 100 + 10 * rollout + t])
            starts = np.array([rollout == 1 and t == 1, False])
            zero = torch.zeros(2)
            buffer.add(frame, played[:, None], np.zeros(2), starts, zero, zero)
        buffer.finish(frame, np.zeros(2, bool), np.zeros((4, 2), np.float32))
    for ready in (False, True):
        if ready:
            next(iter(buffer.get(8)))
        index = np.arange(8)  # environment 0 at times 0 to 3, then environment 1
        found, valid = buffer.actions_at(index, -2)
        # environment 0 begins an episode at time 1: only times 0 and 3 have a past of two steps
        assert valid.tolist() == [True, False, False, True] + [True] * 4
        assert found[valid].tolist() == [2, 11, 102, 103, 110, 111]
        found, valid = buffer.actions_at(index, 1)
        assert valid.tolist() == [False, True, True, False, True, True, True, False]
        assert found[valid].tolist() == [12, 13, 111, 112, 113]
    again = memory(4, space, actions, "cpu", n_envs=2)
    again.history, again.wants_actions = 2, True
    again.load_state(buffer.state())
    assert again.past_actions.tolist() == [[12, 112], [13, 113]]


def test_settings_are_refused_in_one_sentence() -> None:
    with refuses("steps=0", "from 1 to 100"):
        SelfPrediction(steps=0)
    with refuses("kl_coef=-1", "at least 0"):
        VariationalAutoencoder(kl_coef=-1)
    with refuses("tau=0", "above 0"):
        Byol(tau=0)
