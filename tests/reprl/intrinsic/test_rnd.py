"""Random network distillation: its numbers by hand, what it changes and what it leaves alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

from reprl.algorithms import A2C, PPO, rebuild
from reprl.algorithms.curiosity import Curiosity
from reprl.algorithms.rollout_buffer import endless_advantages
from reprl.cli import main
from reprl.intrinsic import RND
from reprl.intrinsic.moments import RunningMoments
from reprl.policy import critic_latent
from tests.helpers import refuses
from tests.reprl.algorithms.test_capture import CaptureAt, fingerprint
from tests.reprl.test_gymnasium_runs import PPO as SMALL_PPO
from tests.reprl.test_gymnasium_runs import RUN, resumed
from tests.runs import same_runs
from tests.toys.catch import Catch
from tests.toys.lock import DEPTH, Lock

RND_SPEC: dict[str, Any] = {"_target_": "reprl.intrinsic.RND", "width": 16}
SMALL: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "n_epochs": 2, "device": "cpu", "seed": 3}


def test_running_moments_are_those_of_everything_seen() -> None:
    moments = RunningMoments((2,))
    assert moments.std.tolist() == [1, 1]
    moments.add(torch.tensor([[1.0, 5], [3, 5]]))
    moments.add(torch.tensor([[5.0, 5]]))
    assert moments.mean.tolist() == [3, 5]
    # of 1, 3 and 5: (4 + 0 + 4) / 3; what never changes is divided by 1e-4
    np.testing.assert_allclose(moments.std, [(8 / 3) ** 0.5, 1e-4], rtol=1e-6)


def test_advantages_go_over_the_ends_of_games() -> None:
    rewards, values = np.array([[1.0], [2.0]]), np.array([[0.5], [1.0]])
    found = endless_advantages(rewards, values, np.array([4.0]), 0.5, 0.5)
    # last: 2 + 0.5 * 4 - 1 = 3; first: 1 + 0.5 * 1 - 0.5 + 0.25 * 3 = 1.75
    assert found.tolist() == [[1.75], [3.0]]


def curious(**reward: Any) -> PPO:
    return PPO("CnnPolicy", Catch(2), intrinsic=RND_SPEC | reward, **SMALL)


def curiosity_of(model: Any) -> Curiosity:
    assert model.curiosity is not None
    return model.curiosity


def test_rewards_are_divided_by_the_deviation_of_their_running_return() -> None:
    curiosity = curiosity_of(curious(gamma=0.5))
    scaled = curiosity.scaled(np.array([[2.0, 4.0], [1.0, 0.0]]))
    # running returns 2, 4 and then 0.5 * 2 + 1 = 2, 0.5 * 4 + 0 = 2: variance 0.75
    np.testing.assert_allclose(scaled, np.array([[2, 4], [1, 0]]) / 0.75**0.5, rtol=1e-6)
    assert curiosity.running.tolist() == [2, 2]
    curiosity.scaled(np.array([[1.0, 1.0]]))
    assert curiosity.running.tolist() == [2, 2]
    assert curiosity.returned.count == 6


def test_only_the_newest_frame_is_seen_each_pixel_by_its_own_measure() -> None:
    reward = RND(width=4)
    reward.setup((4, 36, 36), 1)
    frames = torch.zeros(2, 4, 36, 36)
    frames[1, -1, 0, 0], frames[:, 0] = 1.0, 9.0
    reward.observe(frames)
    seen = reward.normalised(frames)
    assert seen.shape == (2, 1, 36, 36)
    # 0 and 1: mean 0.5, deviation 0.5
    torch.testing.assert_close(seen[:, 0, 0, 0], torch.tensor([-1.0, 1.0]), rtol=1e-4, atol=0)
    assert not seen[:, 0, 1:].any()
    frames[0, -1, 5, 5] = 1.0  # has never been other than 0
    assert reward.normalised(frames)[0, 0, 5, 5] == 5.0


def test_what_was_learned_is_no_longer_new() -> None:
    torch.manual_seed(0)
    reward = RND(width=8, share=1.0)
    reward.setup((6,), 1)
    seen, unseen = torch.eye(6)[:3].repeat(4, 1), torch.eye(6)[3:]
    reward.observe(seen)
    optimizer = torch.optim.Adam(reward.predictor.parameters(), 1e-2)
    before, generator = reward.rewards(seen).mean(), torch.Generator()
    for _ in range(100):
        optimizer.zero_grad()
        reward.loss(seen, generator).backward()
        optimizer.step()
    assert reward.rewards(seen).mean() < 0.05 * before
    assert reward.rewards(unseen).mean() > 0.5 * before
    assert all(not p.requires_grad for p in reward.target.parameters())


def test_a_rollout_gets_the_intrinsic_advantages_on_top() -> None:
    advantages = {}
    for coef in (0.0, 2.0):
        model = curious(coef=coef)
        _, callback = model._setup_learn(16)
        model.collect_rollouts(model.env, callback, model.rollout_buffer, 8)  # type: ignore[arg-type]
        advantages[coef] = model.rollout_buffer.advantages.copy()
    curiosity = curiosity_of(model)
    assert curiosity.returns.shape == (8, 2)
    added = (advantages[2.0] - advantages[0.0]) / 2.0
    memory = model.rollout_buffer
    place = np.arange(16)
    features = model.policy.extract_features(memory.to_torch(memory.observed(place)))
    values = (
        curiosity.values(critic_latent(model.policy, features)).detach().numpy().reshape(2, 8).T
    )
    np.testing.assert_allclose(curiosity.returns, added + values, rtol=1e-4, atol=1e-4)
    # the observation after a game's last one is the next game's first
    after = memory.observed(place, later=1).reshape(2, 8, *memory.obs_shape)
    np.testing.assert_array_equal(after[:, :-1], memory.observations.swapaxes(0, 1)[:, 1:])
    np.testing.assert_array_equal(after[:, -1], model._last_obs)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["plain", "fast"])
def test_without_weight_the_policy_keeps_its_bits(mode: str) -> None:
    kinds: dict[str, Any] = {"mode": mode, "compile": False, **SMALL}
    plain = PPO("CnnPolicy", Catch(2), **kinds).learn(64)
    silent = RND_SPEC | {"coef": 0.0, "value_coef": 0.0}
    beside = PPO("CnnPolicy", Catch(2), intrinsic=silent, **kinds).learn(64)
    for name, tensor in plain.policy.state_dict().items():
        assert torch.equal(tensor, beside.policy.state_dict()[name]), name
    loud = PPO("CnnPolicy", Catch(2), intrinsic=RND_SPEC, **kinds).learn(64)
    weights = loud.policy.action_net.weight
    assert not torch.equal(weights, plain.policy.action_net.weight)


@pytest.mark.parametrize("cls", [PPO, A2C])
def test_it_continues_bit_for_bit(cls: Any) -> None:
    settings = SMALL if cls is PPO else {"n_steps": 8, "device": "cpu", "seed": 3}
    at = CaptureAt(32)
    whole = cls("CnnPolicy", Catch(2), intrinsic=RND_SPEC, **settings).learn(64, callback=at)
    assert at.captured is not None
    again = rebuild(at.captured.meta, Catch(2, seed=9))
    again.restore(at.captured)
    again.learn(32, reset_num_timesteps=False)
    assert fingerprint(again) == fingerprint(whole)
    assert curiosity_of(again).returned.count == 64


def places(intrinsic: Any) -> int:
    """How many places of the lock PPO has seen after 8,192 steps."""
    env = DummyVecEnv([Lock] * 8)
    PPO(
        *("MlpPolicy", env),
        intrinsic=intrinsic,
        n_steps=128,
        batch_size=256,
        ent_coef=0.01,
        learning_rate=1e-3,
        device="cpu",
        seed=1,
    ).learn(8192)
    visited = sum(each.visited for each in env.envs)  # type: ignore[attr-defined]
    return int((visited > 0).sum())


@pytest.mark.slow
def test_it_sees_more_of_a_game_that_pays_nothing() -> None:
    torch.set_num_threads(1)
    without, paid = places(None), places(RND_SPEC | {"share": 1.0})
    assert without < DEPTH / 2
    assert paid >= without + 6, (without, paid)


@pytest.mark.slow
def test_a_run_resumes_exactly_and_says_what_it_is(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    settings = [*RUN, *SMALL_PPO, "intrinsic=rnd", "intrinsic.width=8", "eval.every=0"]
    assert main(["train", *settings, f"run_dir={whole}"]) == 0
    assert same_runs(whole, resumed(whole, tmp_path / "again"))
    rows = (whole / "metrics.csv").read_text()
    assert "intrinsic/reward" in rows
    assert "loss/intrinsic_model" in rows
    assert main(["evaluate", str(whole), "episodes=2", "workers=0", "progress=off"]) == 0
    assert "ppo_rnd" in (whole / "evaluation" / "episodes.csv").read_text()


def test_what_it_is_not_for_is_refused() -> None:
    with refuses("intrinsic=rnd", "36x36", "20x20"):
        RND().setup((4, 20, 20), 1)
    with refuses("intrinsic", "rdn", "'rnd'"):
        PPO("CnnPolicy", Catch(2), intrinsic="rdn")
