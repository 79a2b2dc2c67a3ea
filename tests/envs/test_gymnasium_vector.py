"""Environments of gymnasium: their own numbers, exact state by replay, and SB3's PPO on them."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from gymnasium.wrappers import FrameStackObservation

from reprl.algorithms import PPO
from reprl.envs import make_vec_env
from reprl.envs.gymnasium_ids import sees_pictures
from reprl.envs.gymnasium_vector import GymVecEnv
from tests.helpers import refuses


class Glowing(gymnasium.Env[np.ndarray, int]):
    """Shows a picture whose gray is the number of steps."""

    observation_space = spaces.Box(0, 255, (8, 10, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.steps = 0
        return self._picture(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._picture(), 2.0, False, self.steps == 3, {}

    def _picture(self) -> np.ndarray:
        return np.full((8, 10, 3), self.steps, np.uint8) * np.arange(3, dtype=np.uint8)


class Gray(Glowing):
    observation_space = spaces.Box(0, 255, (8, 10), np.uint8)

    def _picture(self) -> np.ndarray:
        return np.full((8, 10), self.steps, np.uint8)


def stacked() -> gymnasium.Env[Any, Any]:
    return FrameStackObservation(Gray(), 4)


class Dice(gymnasium.Env[np.ndarray, int]):
    """Has a chance that no seed rules."""

    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.random.default_rng().random(2, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.random.default_rng().random(2, np.float32), 1.0, False, False, {}


@pytest.fixture(autouse=True)
def own_environments() -> Iterator[None]:
    made_by = {"Glowing": Glowing, "Dice": Dice, "Stacked": stacked}
    for kind, entry in made_by.items():
        gymnasium.register(f"reprl-test-{kind}-v0", entry_point=entry)
    yield
    for kind in made_by:
        gymnasium.registry.pop(f"reprl-test-{kind}-v0")


def made(name: str = "CartPole-v1", n_envs: int = 3, seed: int = 5, **more: Any) -> GymVecEnv:
    env: Any = make_vec_env(game=f"gymnasium/{name}", n_envs=n_envs, seed=seed, **more)
    return env


def played(env: GymVecEnv, actions: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """What a list of actions (T, n) gives."""
    steps = []
    for row in actions:
        seen, rewards, dones, _ = env.step(row)
        steps.append((np.asarray(seen), rewards, dones))
    return steps


def test_a_queued_game_is_gymnasiums_own() -> None:
    env, theirs = made(n_envs=1), gymnasium.make("CartPole-v1")
    env.queue(0, 17)
    seen = env.reset()
    np.testing.assert_array_equal(seen[0], theirs.reset(seed=17)[0])
    score, over, k = 0.0, False, 0
    while not over:
        seen, rewards, dones, infos = env.step(np.array([k % 2]))
        expected, reward, terminated, truncated, _ = theirs.step(k % 2)
        score, over, k = score + float(reward), terminated or truncated, k + 1
        assert rewards[0] == reward
        assert dones[0] == over
        shown = infos[0]["terminal_observation"] if over else seen[0]
        np.testing.assert_array_equal(shown, expected)
    assert infos[0]["episode"]["r"] == score
    assert infos[0]["episode"]["l"] == k
    assert not infos[0]["TimeLimit.truncated"]


def test_a_restored_environment_goes_on_bit_for_bit() -> None:
    actions = np.random.default_rng(0).integers(0, 2, (60, 3))
    env = made()
    env.reset()
    played(env, actions[:30])  # beyond the first games' ends
    snapshot, expected = env.snapshot(), played(env, actions[30:])
    other = made(seed=99)
    other.restore(snapshot)
    assert not other.lost
    for first, second in zip(expected, played(other, actions[30:]), strict=True):
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_environment_with_a_chance_of_its_own_is_found_out() -> None:
    env = made("reprl-test-Dice-v0")
    env.reset()
    env.step(np.zeros(3, np.int64))
    env.restore(env.snapshot())
    assert env.lost


def test_a_damaged_snapshot_is_refused() -> None:
    env = made()
    env.reset()
    with refuses("damaged"):
        env.restore(env.snapshot()[:-3] + b"???")


def test_pictures_come_channels_first_and_rewards_scaled() -> None:
    assert sees_pictures("gymnasium/reprl-test-Glowing-v0")
    env = made("reprl-test-Glowing-v0", n_envs=1, reward=0.5)
    assert env.reset().shape == (1, 3, 8, 10)
    seen, rewards, _, infos = env.step(np.array([1]))
    assert np.asarray(seen)[0, :, 0, 0].tolist() == [0, 1, 2]
    assert rewards[0] == 1.0
    assert infos[0]["raw_reward"] == 2.0
    env.step(np.array([-1]))  # leaves it alone
    assert env.standing(0) == (2.0, 1)
    env.step(np.array([0]))
    _, _, dones, infos = env.step(np.array([0]))
    assert dones[0]
    assert infos[0]["TimeLimit.truncated"]


def test_frames_that_gymnasium_stacked_come_as_they_are() -> None:
    env = made("reprl-test-Stacked-v0", n_envs=1)
    assert env.channels == 1  # four gray frames
    env.reset()
    seen, *_ = env.step(np.array([1]))
    assert np.asarray(seen)[0, :, 0, 0].tolist() == [0, 0, 0, 1]
    assert env.frame(0).shape == (8, 10, 3)
    assert (env.frame(0) == 1).all()  # the newest one


def test_sticky_actions_and_variants_are_refused() -> None:
    with refuses("sticky=0.25"):
        made(sticky=0.25)
    with refuses("'green_lines'", "only original"):
        made(variant="green_lines")


def test_ppo_on_numbers_is_sb3s_bit_for_bit() -> None:
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 48, "n_epochs": 2, "seed": 3}
    stock = stable_baselines3.PPO("MlpPolicy", made(), device="cpu", **settings).learn(96)
    spec = {"_target_": "reprl.encoders.Mlp", "separate": True}
    ours = PPO("MlpPolicy", made(), encoder=spec, device="cpu", **settings).learn(96)
    pairs = zip(stock.policy.parameters(), ours.policy.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
