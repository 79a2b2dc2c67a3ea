"""Imitation on real Breakout, small: true labels, the data as a naive store has it, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor

from reprl import checkpoint
from reprl.algorithms import Imitation, rebuild
from reprl.algorithms.imitation import Expert, ExpertSettings, Mixture, cross_entropy
from reprl.auxiliary.base import AuxiliaryLoss, Batch
from reprl.encoders.base import Encoder
from reprl.envs import ScriptedAgent, make_vec_env
from tests.helpers import refuses
from tests.reprl.algorithms.parts import FLIP, spread
from tests.reprl.algorithms.test_capture import CaptureAt, fingerprint

pytestmark = pytest.mark.slow  # trains

SMALL: dict[str, Any] = {
    "n_steps": 16,
    "updates": 2,
    "batch_size": 16,
    "buffer_size": 10_000,
    "seed": 3,
    "encoder": {"_target_": "reprl.encoders.Nature", "features_dim": 16},
}


def imitation(env: Any = None, **more: Any) -> Imitation:
    env = make_vec_env(n_envs=2, seed=5, max_frames=400) if env is None else env
    return Imitation("CnnPolicy", env, **(SMALL | more))


def expert_of(settings: ExpertSettings, n_envs: int, seed: int = 0) -> Expert:
    return Expert(settings, n_envs, seed, script=ScriptedAgent, launch=2)


class Watch(BaseCallback):
    """The rollouts as they happened: what was seen, played and true at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[dict[str, Any]] = []

    def _on_step(self) -> bool:
        found = self.locals
        model: Any = self.model
        self.steps.append(
            {
                "observations": np.array(found["obs_tensor"]),
                "actions": np.array(found["actions"]),
                "rewards": np.array(found["rewards"]),
                "starts": np.array(model._last_episode_starts, bool),
                "probs": model._labels[-1].copy(),
                "moving": [eye.moving for eye in model.expert.player._memories.values()],
            }
        )
        return True

    def all(self, name: str) -> np.ndarray:
        """(time, n_envs, ...)"""
        return np.stack([step[name] for step in self.steps])


def watched(model: Imitation, steps: int) -> Watch:
    watch = Watch()
    model.learn(steps, callback=watch)
    return watch


# -- labels -------------------------------------------------------------------------------------


def test_costs_are_least_for_what_the_player_means() -> None:
    """Two players in one game: one plays, the other only judges, told what was played."""
    env = make_vec_env(n_envs=4, seed=2, training=False)
    env.reset()
    plays, judges = ScriptedAgent(seed=1), ScriptedAgent(seed=1)
    # `predict` draws two numbers a step that judging does not need: where the ball shall fall on
    # the paddle is set to the middle for both.
    before = np.zeros(4, np.int64)
    for _ in range(300):
        for player in (plays, judges):
            for eye in player._memories.values():
                eye.aim = 0.0
        objects = env.objects()
        costs, actions = judges.costs(objects, before), plays.predict(objects)
        for player in (plays, judges):
            for eye in player._memories.values():
                eye.aim = 0.0
        agree = costs.argmin(axis=1) == actions
        turned = np.array([eye.samples == 1 for eye in plays._memories.values()])
        assert (agree | turned).all()  # in the step of a turn the aim was drawn before it was used
        before = actions
        env.step(actions)
    env.close()


def test_labels_are_what_the_scripted_player_would_do_there() -> None:
    """A second player, in step with the games and told every action, has the same choice."""
    model = imitation(beta=0.5)
    again = expert_of(ExpertSettings(), 2, 3)
    choices: list[np.ndarray] = []

    taken = model._executed

    def executed(actions: np.ndarray) -> np.ndarray:
        before = np.where(model._last_episode_starts, 2, again.played)
        costs = again.player.costs(model.env.objects(), before)  # type: ignore[union-attr]
        choices.append(costs.argmin(axis=1))
        again.played = taken(actions)
        return again.played

    model._executed = executed  # type: ignore[method-assign]
    probs = watched(model, 192).all("probs")
    assert (probs.argmax(axis=2) == np.stack(choices)).all()
    assert probs.sum(axis=2) == pytest.approx(1)
    assert ((probs > 0.01) & (probs < 0.99)).any(), "labels are probabilities, not one hot"
    model.env.close()  # type: ignore[union-attr]


def test_moving_is_the_action_really_played() -> None:
    """And RIGHT, which the environment presses last, where an episode has just begun."""
    model = imitation(beta=0.5, expert={"skill": 0.5})
    watch = watched(model, 256)
    actions, starts, moving = (watch.all(name) for name in ("actions", "starts", "moving"))
    moves = np.array([0, 0, 1, -1])
    assert (moving[1:][~starts[1:]] == moves[actions[:-1]][~starts[1:]]).all()
    assert starts[1:].any()
    assert (moving[starts] == 1).all()
    assert len(np.unique(actions)) == 4
    model.env.close()  # type: ignore[union-attr]


def test_temperature_and_fire() -> None:
    costs = np.array([[1.0, np.inf, 2.0, 4.0], [np.inf, 0.0, np.inf, np.inf]])
    soft, hard = (
        expert_of(ExpertSettings(temperature=t), 2).probabilities(costs) for t in (1.0, 0.01)
    )
    expected = np.exp([-1.0, -np.inf, -2.0, -4.0])
    assert soft[0] == pytest.approx(expected / expected.sum())
    assert hard[0] == pytest.approx([1, 0, 0, 0])
    assert soft[1] == pytest.approx([0, 1, 0, 0])


def test_beta_and_skill_decide_who_plays() -> None:
    costs = np.tile([1.0, np.inf, 0.0, 4.0], (4000, 1))
    learner = np.full(4000, 3)

    def shares(beta: float, skill: float) -> np.ndarray:
        expert = expert_of(ExpertSettings(skill=skill), 4000)
        return np.bincount(expert.mix(costs, learner, beta), minlength=4) / 4000

    assert shares(0, 1) == pytest.approx([0, 0, 0, 1])
    assert shares(1, 1) == pytest.approx([0, 0, 1, 0])
    assert shares(0.3, 1) == pytest.approx([0, 0, 0.3, 0.7], abs=0.03)
    assert shares(1, 0.6) == pytest.approx([0.1, 0.1, 0.7, 0.1], abs=0.03)
    beta = Mixture(start=1.0, end=0.2, until=0.5)
    assert [beta(left) for left in (1.0, 0.75, 0.5, 0.0, -0.01)] == pytest.approx(
        [1, 0.6, 0.2, 0.2, 0.2]
    )
    assert Mixture(until=0)(1.0) == 0


# -- the data -----------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [1, 3])
def test_the_data_are_those_of_a_naive_store(gap: int) -> None:
    """Stacks, labels and neighbours, over episode ends and with the oldest rollouts gone."""
    env = make_vec_env(n_envs=2, seed=5, max_frames=400, gap=gap)
    model = imitation(env, beta=0, buffer_size=3 * 32, auxiliary=spread(reach=20))
    watch = watched(model, 160)
    memory = model.rollout_buffer
    assert [chunk.first for chunk in memory.chunks] == [32, 48, 64]
    assert memory.samples == 96
    starts, observations = watch.all("starts"), watch.all("observations")
    assert starts[33:].any()
    batch = memory.minibatch(np.arange(96))
    time, envs = memory.time_of(batch.place).numpy(), memory.env_of(batch.place).numpy()
    assert sorted(zip(time, envs, strict=True)) == [(t, e) for t in range(32, 80) for e in (0, 1)]
    assert (batch.observations.numpy() == observations[time, envs]).all()
    assert (batch.actions.numpy() == watch.all("actions")[time, envs]).all()
    assert np.allclose(batch.expert, watch.all("probs")[time, envs])
    assert (memory.rewards_of(batch.place).numpy() == watch.all("rewards")[time, envs]).all()
    assert (memory.starts_of(batch.place).numpy() == starts[time, envs]).all()
    for offset in (-20, -3, -1, 1, 17):
        found, valid = memory.at(batch.place, offset)
        for row, (t, e) in enumerate(zip(time, envs, strict=True)):
            low, high = min(t, t + offset), max(t, t + offset)
            same = low >= 32 and high < 80 and not starts[low + 1 : high + 1, e].any()
            assert valid[row] == same
            there = t + offset if same else t
            assert (found[row].numpy() == observations[there, e]).all()
    with refuses("reach"):
        memory.at(batch.place, 21)
    env.close()


def test_returns_are_those_of_the_rollout() -> None:
    model = imitation(gae_lambda=1.0)
    watch = watched(model, 32)
    rewards, starts = watch.all("rewards"), watch.all("starts")
    memory = model.rollout_buffer
    found = memory.chunks[0]["returns"]
    assert (found == memory.returns).all()
    for e in range(2):
        for t in range(15):
            later = 0.0 if starts[t + 1, e] else 0.99 * found[t + 1, e]
            assert found[t, e] == pytest.approx(rewards[t, e] + later, abs=1e-5)
    model.env.close()  # type: ignore[union-attr]


def test_minibatches_are_drawn_from_all_data() -> None:
    model = imitation(updates=30)
    model.learn(96)
    times = [model.rollout_buffer.time_of(b.place) for b in model.rollout_buffer.minibatches(16)]
    assert len(times) == 30
    assert set(torch.cat(times).tolist()) == set(range(48))
    model.env.close()  # type: ignore[union-attr]


# -- learning -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["plain", "fast"])
def test_it_learns_what_the_expert_does(mode: str) -> None:
    """The loss on the same samples falls, far below that of knowing nothing."""
    model = imitation(mode=mode, compile=False, updates=40, batch_size=32, learning_rate=2e-3)
    losses: list[float] = []

    def loss() -> None:
        batch = model.rollout_buffer.minibatch(np.arange(32))
        found = model.update.losses(model, batch, batch.actions, {}, dict, 0)
        losses.append(found.numbers["policy"])

    train = model.train

    def measured() -> None:
        loss()
        train()
        loss()

    model.train = measured  # type: ignore[method-assign]
    model.learn(32, log_interval=None)
    assert losses[0] == pytest.approx(np.log(4), abs=0.1)
    assert losses[1] < 0.8 * losses[0]
    model.env.close()  # type: ignore[union-attr]


def test_a_mirrored_picture_has_mirrored_labels() -> None:
    model = imitation(augmentation=FLIP)
    model.learn(32)
    batch = model.rollout_buffer.minibatch(np.arange(32))
    seen: dict[str, Any] = {}
    forward, loss_terms = model.update.forward, model.loss_terms

    def watched_forward(policy: Any, observations: Tensor) -> Any:
        seen["observations"] = observations
        return forward(policy, observations)

    def watched_terms(output: Any, actions: Tensor, minibatch: Any) -> Any:
        seen["actions"], seen["expert"] = actions, minibatch.expert
        return loss_terms(output, actions, minibatch)

    model.update.forward = watched_forward
    model.loss_terms = watched_terms  # type: ignore[method-assign]
    model.update.losses(model, batch, batch.actions, {}, dict, 0)
    flipped = (seen["observations"] != batch.observations).flatten(1).any(1)
    assert 0 < flipped.sum() < 32
    swapped = torch.tensor([0, 1, 3, 2])
    assert torch.equal(seen["expert"][flipped], batch.expert[flipped][:, swapped])
    assert torch.equal(seen["expert"][~flipped], batch.expert[~flipped])
    assert torch.equal(seen["actions"][flipped], swapped[batch.actions][flipped])
    assert torch.equal(seen["actions"][~flipped], batch.actions[~flipped])
    model.env.close()  # type: ignore[union-attr]


def test_a_loss_of_weight_0_changes_no_bit() -> None:
    found = []
    for auxiliary in (None, spread(coef=0.0, reach=3)):
        model = imitation(auxiliary=auxiliary)
        model.learn(96)
        model.env.close()  # type: ignore[union-attr]
        found.append([p.detach() for p in model.policy.parameters()])
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


def test_sharpness_fits_a_softer_policy_than_the_one_that_plays() -> None:
    label = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
    log_probs = (2 * label.log()).log_softmax(dim=1).requires_grad_()
    loss = cross_entropy(log_probs, label, 2.0)
    assert loss.item() == pytest.approx(-(label * label.log()).sum().item())
    loss.backward()
    assert log_probs.grad is not None
    assert log_probs.grad.abs().max() < 1e-6  # the least there is: the labels' own entropy


# -- stopping and continuing ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["plain", "fast"])
def test_a_restored_run_goes_on_bit_for_bit(mode: str, tmp_path: Path) -> None:
    extras = {"auxiliary": spread(coef=0.3, reach=3), "augmentation": FLIP, "mode": mode}
    extras |= {"compile": False, "buffer_size": 3 * 32, "expert": {"skill": 0.9}, "beta": 0.5}
    whole = imitation(**extras)
    at = CaptureAt(96)
    whole.learn(224, callback=at, log_interval=None)
    assert at.captured is not None
    blobs = [name for name in at.captured.state if name.startswith("memory.chunk.")]
    assert len(blobs) == 3
    env = make_vec_env(n_envs=2, seed=99, max_frames=400)
    resumed = rebuild(at.captured.meta, env)
    resumed.restore(at.captured)
    assert fingerprint(resumed) != fingerprint(whole)
    resumed.learn(224 - 96, reset_num_timesteps=False, log_interval=None)
    assert fingerprint(resumed) == fingerprint(whole)
    checkpoint.save(whole, tmp_path)
    alone = checkpoint.load(tmp_path)  # without an environment: it predicts
    observations = whole._last_obs
    assert (
        alone.predict(observations, deterministic=True)[0]
        == whole.predict(observations, deterministic=True)[0]
    ).all()
    assert alone.rollout_buffer.chunks[0]._arrays is None, "data are unpacked when they are needed"
    for model in (whole, resumed):
        model.env.close()


# -- refusals -----------------------------------------------------------------------------------


class Greedy(AuxiliaryLoss):
    """Needs what imitation does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.declare("greedy", coef=1.0)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        return {"greedy": (batch.advantages * batch.values).mean()}


GREEDY = {"greedy": {"_target_": f"{__name__}.Greedy"}}


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"buffer_size": 31}, ["buffer_size=31", "n_steps=16"]),
        ({"expert": {"skill": 1.1}}, ["expert.skill=1.1", "0 to 1"]),
        ({"expert": {"skil": 1}}, ["'skil'", "'skill'"]),
        ({"expert": {"temperature": 0}}, ["expert.temperature=0"]),
        ({"expert": 3}, ["expert=3", "skill, temperature"]),
        ({"beta": 1.5}, ["beta.start=1.5", "0 to 1"]),
        ({"beta": {"until": -0.1}}, ["beta.until=-0.1"]),
        ({"beta": {"start": True}}, ["beta.start=True"]),
        ({"auxiliary": GREEDY}, ["batch.advantages"]),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong: dict[str, Any], names: list[str]) -> None:
    env = make_vec_env(n_envs=2)
    with refuses(*names):
        imitation(env, **wrong)
    env.close()


def test_other_algorithms_have_advantages() -> None:
    from reprl.algorithms import PPO

    env = make_vec_env(n_envs=2)
    PPO("CnnPolicy", env, n_steps=4, batch_size=8, auxiliary=GREEDY, encoder=SMALL["encoder"])
    env.close()


def test_a_game_without_a_scripted_player_is_refused() -> None:
    env = make_vec_env(n_envs=2, game="boxing")
    with refuses("breakout", "'boxing'"):
        imitation(env)
    env.close()
