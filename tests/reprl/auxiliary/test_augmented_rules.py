"""UCB-DrAC, SVEA's and SODA's rules: by hand, where their gradient goes, what is remembered."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from reprl.algorithms import PPO, Imitation, rebuild
from reprl.augmentation.base import Augmentation, View
from reprl.auxiliary import DrAC, Soda, Svea, UcbDrAC
from reprl.auxiliary.bandit import Bandit
from tests.helpers import refuses
from tests.reprl.algorithms.test_capture import CaptureAt, fingerprint
from tests.reprl.auxiliary.test_drac import Invert
from tests.toys.catch import SMALL_ENCODER, Catch, score


def test_svea_by_hand(unmasked: Any) -> None:
    loss = unmasked.prepare(Svea(), Invert())
    images, returns = unmasked.images(3), torch.tensor([1.0, -2.0, 0.5])
    batch = unmasked.batch(images, returns=returns)
    expected = (unmasked.batch(255 - images).values - returns).square().mean().item()
    assert loss(batch, unmasked.encoder)["svea"].item() == pytest.approx(expected, rel=1e-5)
    everything = {f"encoder.{name}" for name, _ in unmasked.encoder.named_parameters()}
    assert unmasked.reached(loss, batch) == everything | {"critic.weight", "critic.bias"}


def test_svea_begins_from_the_picture_before_rad(unmasked: Any) -> None:
    loss = unmasked.prepare(Svea(augmentation="none"))
    images = unmasked.images(3)
    batch = unmasked.batch(255 - images)
    batch.augmented_from = images
    expected = unmasked.batch(images).values.square().mean().item()
    assert loss(batch, unmasked.encoder)["svea"].item() == pytest.approx(expected, rel=1e-5)


def test_soda_by_hand(unmasked: Any) -> None:
    loss = unmasked.prepare(Soda(latent=4, hidden=5), Invert())
    images = unmasked.images(3)
    batch = unmasked.batch(images)
    guess = loss.predictor(loss.projection(unmasked.batch(255 - images).output.features))
    target = loss.projection(batch.output.features)  # the copies are still equal
    guess, target = (rows / rows.norm(dim=1, keepdim=True) for rows in (guess, target))
    expected = (guess - target).square().sum(1).mean().item()
    assert loss(batch, unmasked.encoder)["soda"].item() == pytest.approx(expected, rel=1e-4)
    batch.output.features.retain_grad()
    loss(batch, unmasked.encoder)["soda"].backward()
    assert batch.output.features.grad is None  # the clean side is only a target
    before = loss.key_projection.copy[0].weight.clone()
    with torch.no_grad():
        loss.projection[0].weight.add_(1.0)
    loss.after_step()
    moved = loss.key_projection.copy[0].weight - before
    torch.testing.assert_close(moved, torch.full_like(moved, 0.005), rtol=1e-2, atol=0)


def test_the_bandit_by_hand() -> None:
    bandit = Bandit(2, exploration=1.0, window=2)
    bandit.credit(100.0)  # nothing was chosen yet
    assert bandit.choose() == 0
    bandit.credit(1.0)
    assert bandit.choose() == 1
    bandit.credit(3.0)
    # after one try each: 1 + sqrt(log 2), 3 + sqrt(log 2)
    np.testing.assert_allclose(bandit.bounds(), np.array([1, 3]) + math.sqrt(math.log(2)))
    assert bandit.choose() == 1
    bandit.credit(0.0)
    # means 1 and 1.5, tried once and twice of 3
    wanted = [1 + math.sqrt(math.log(3)), 1.5 + math.sqrt(math.log(3) / 2)]
    np.testing.assert_allclose(bandit.bounds(), wanted)
    assert bandit.choose() == 1
    bandit.credit(0.0)  # of a window of 2 the 3 is gone
    assert bandit.scores[1].tolist() == [0.0, 0.0]
    assert bandit.choose() == 0


def test_it_finds_the_useful_option_of_a_planted_set() -> None:
    rng = np.random.default_rng(0)
    loss = UcbDrAC(options=["noise", "shift", "blur", "rotate"])
    paid = {"noise": 0.4, "shift": 0.5, "blur": 0.9, "rotate": 0.6}
    score = 0.0
    for _ in range(100):
        loss.begin_update(score)
        used = loss.names[int(loss.bandit.chosen)]
        score = paid[used] + 0.1 * rng.standard_normal()
    shares = loss.noted()
    assert max(shares, key=lambda name: shares[name]) == "ucb/blur"
    assert shares["ucb/blur"] > 0.6
    assert sum(shares.values()) == pytest.approx(1)


class Exchanged(Augmentation):
    """Everybody sees another sample's picture: what it shows has nothing to do with the action."""

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        return View(observations.roll(1, 0))


class HiddenMirror(Augmentation):
    """Left and right exchanged, and nothing said of it: the actions are the wrong ones."""

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        return View(observations.flip(-1))


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_agent_finds_the_option_that_does_not_ruin_it(place: int) -> None:
    """It has learned to play when the three are tried; the first is no better off than the last."""
    options: list[Any] = [
        {"_target_": f"{__name__}.{kind.__name__}"} for kind in (Exchanged, HiddenMirror)
    ]
    options.insert(place, "intensity")
    steps = {"n_steps": 16, "batch_size": 128, "n_epochs": 3}
    rates = {"learning_rate": 3e-3, "gamma": 0.95, "ent_coef": 0.01}
    ucb = {"coef": 1.0, "options": options, "exploration": 0.3, "begin": 8 * 256}
    model = PPO(
        "CnnPolicy",
        Catch(16, place, stack=2, cut=False),
        encoder=SMALL_ENCODER,
        auxiliary={"_target_": "reprl.auxiliary.UcbDrAC", **ucb},
        seed=place,
        device="cpu",
        **steps,
        **rates,
    ).learn(40 * 256)
    bandit = model.losses.modules["ucbdrac"].bandit
    assert bandit.counts.sum() == 33
    assert bandit.counts.argmax() == bandit.scores.nanmean(1).argmax() == place
    assert bandit.counts[place] > 0.4 * 33
    assert score(model) > 0.5  # random play: -0.35, the best possible: 0.9


def test_the_chosen_option_makes_the_views(unmasked: Any) -> None:
    loss = unmasked.prepare(UcbDrAC(options=["none", "shift"]), Invert())
    loss.options[1].augmentation = Invert()
    plain = unmasked.prepare(DrAC(), Invert())
    batch = unmasked.batch(unmasked.images(64))
    values = {}
    for place in (0, 1):
        loss.begin_update(0.0)
        assert loss.bandit.chosen == place
        batch.generator.manual_seed(0)
        values[place] = loss(batch, unmasked.encoder)["ucb_drac"].item()
    batch.generator.manual_seed(0)
    assert values[1] == plain(batch, unmasked.encoder)["drac"].item()
    assert values[0] != values[1]


SMALL: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "n_epochs": 2, "device": "cpu", "seed": 3}
UCB = {"_target_": "reprl.auxiliary.UcbDrAC", "options": ["shift", "noise", "blur"], "window": 2}


def test_what_the_bandit_knows_is_in_checkpoints() -> None:
    at = CaptureAt(48)
    whole = PPO("CnnPolicy", Catch(2), auxiliary=UCB, **SMALL).learn(96, callback=at)
    counts = whole.losses.modules["ucbdrac"].bandit.counts
    assert counts.sum() == 6  # one choice an update
    assert at.captured is not None
    again = rebuild(at.captured.meta, Catch(2, seed=9))
    again.restore(at.captured)
    assert again.losses.modules["ucbdrac"].bandit.counts.tolist() == [1, 1, 1]
    again.learn(48, reset_num_timesteps=False)
    assert fingerprint(again) == fingerprint(whole)


def test_before_its_step_nothing_is_tried() -> None:
    model = PPO("CnnPolicy", Catch(2), auxiliary=UCB | {"begin": 48}, **SMALL).learn(64)
    assert model.losses.modules["ucbdrac"].bandit.counts.sum() == 2


def test_without_returns_to_learn_from_it_is_refused() -> None:
    from reprl.envs import make_vec_env

    env = make_vec_env(n_envs=2)
    with refuses("ucb_drac", "advantages"):
        Imitation("CnnPolicy", env, auxiliary="ucb_drac", n_steps=8, batch_size=16)
    env.close()
    with refuses("options", "two or more"):
        UcbDrAC(options=["shift"])
