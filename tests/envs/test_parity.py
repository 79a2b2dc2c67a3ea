"""Our emulator step against an untouched make_atari_env + VecFrameStack of stable-baselines3."""

import ale_py
import gymnasium
import numpy as np
import pytest
from gymnasium.utils import seeding
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

from reprl.envs import make_vec_env

pytestmark = pytest.mark.slow  # plays games

gymnasium.register_envs(ale_py)


def player(ram: np.ndarray, rng: np.random.Generator, skill: float) -> int:
    """Good enough to hit bricks and bad enough to lose lives."""
    if rng.random() > skill:
        return int(rng.integers(4))
    paddle, ball = int(ram[72]) - 47 + int(ram[108]), int(ram[99]) - 48
    return 2 if ball > paddle + 2 else 3 if ball < paddle - 2 else 0


def compare(game: str, n: int, steps: int, seed: int, skill=None):
    """Step both with the same actions; returns how many lives and games ended."""
    rom = gymnasium.spec(f"{game}NoFrameskip-v4").kwargs["game"]
    theirs = VecFrameStack(
        make_atari_env(f"{game}NoFrameskip-v4", n_envs=n, seed=seed),
        n_stack=4,
    )
    ours = make_vec_env(n_envs=n, seed=seed, game=rom)
    for i, emulator in enumerate(ours._block.emulators):
        # ale-py seeds environment i's generator this way; SB3 draws nothing but no-op starts.
        first = np.random.SeedSequence(seed + i).generate_state(n_words=2)[0]
        generator, _ = seeding.np_random(int(first))
        emulator.noops = lambda generator=generator: int(generator.integers(1, 31))
    np.testing.assert_array_equal(ours.reset(), np.moveaxis(theirs.reset(), -1, 1))
    rng = np.random.default_rng(seed)
    lost = over = 0
    actions_known = len(ours.action_meanings)
    for step in range(steps):
        if skill is None:
            actions = rng.integers(actions_known, size=n)
        else:
            level = skill[(step // 400) % len(skill)]
            actions = np.array([player(e.ale.getRAM(), rng, level) for e in ours._block.emulators])
        expected, rewards, dones, infos = theirs.step(actions)
        observations, our_rewards, our_dones, our_infos = ours.step(actions)
        np.testing.assert_array_equal(observations, np.moveaxis(expected, -1, 1), err_msg=str(step))
        np.testing.assert_array_equal(our_rewards, rewards)
        np.testing.assert_array_equal(our_dones, dones)
        for i in np.flatnonzero(dones):
            terminal = np.moveaxis(infos[i]["terminal_observation"], -1, 0)
            np.testing.assert_array_equal(our_infos[i]["terminal_observation"], terminal)
            assert our_infos[i]["TimeLimit.truncated"] == infos[i]["TimeLimit.truncated"]
            assert our_infos[i]["lives"] == infos[i]["lives"]
            assert ("episode" in our_infos[i]) == ("episode" in infos[i])
            if "episode" in infos[i]:
                over += 1
                for key in ("r", "l"):
                    assert our_infos[i]["episode"][key] == infos[i]["episode"][key]
            else:
                lost += 1
    return lost, over


def test_breakout_is_bit_equal_over_ten_thousand_steps():
    lost, over = compare("Breakout", n=2, steps=5200, seed=3, skill=(0.75, 0.3))
    assert lost >= 50
    assert over >= 10


@pytest.mark.parametrize(
    ("game", "steps"),
    [
        ("Pong", 1300),
        ("MsPacman", 900),
        ("SpaceInvaders", 900),
        ("Carnival", 900),
        ("AirRaid", 900),
    ],
)
def test_other_games_are_bit_equal(game, steps):
    """Pong has no lives, Ms. Pac-Man no FIRE, Space Invaders bonus frames at zero lives; Carnival's
    picture has 214 rows, Air Raid's 250 and other colours."""
    lost, over = compare(game, n=1, steps=steps, seed=1)
    assert lost + over >= 1


def test_evaluation_shows_the_same_observations_as_training():
    """Full games with raw scores, but each life starts exactly as in training."""
    training, evaluation = (
        make_vec_env(n_envs=1, seed=5),
        make_vec_env(n_envs=1, seed=5, training=False),
    )
    np.testing.assert_array_equal(training.reset(), evaluation.reset())
    rng = np.random.default_rng(0)
    lives = games = score = 0
    for _ in range(1800):
        ram = training._block.emulators[0].ale.getRAM()
        actions = np.array([player(ram, rng, 0.4)])
        expected, rewards, dones, infos = training.step(actions)
        observations, raw, ends, full = evaluation.step(actions)
        np.testing.assert_array_equal(observations, expected)
        assert rewards[0] == np.sign(infos[0]["raw_reward"])
        score += raw[0]
        lives += dones[0]
        assert ends[0] == ("episode" in infos[0])
        if ends[0]:
            games += 1
            assert full[0]["episode"]["r"] == infos[0]["episode"]["r"] == score
            score = 0
    assert games >= 2
    assert lives >= 5 * games
