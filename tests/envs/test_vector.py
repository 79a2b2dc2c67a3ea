"""The vector environment: games and seeds, exact state, infos and bad input."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stable_baselines3.common.monitor import Monitor

from reprl.cli.arguments import convert
from reprl.cli.evaluate import KEYS
from reprl.envs import make_vec_env
from reprl.envs.variation import Part, Variant
from tests.helpers import refuses

MIXTURE = ["moving_square", "green_lines", "original"]
MISSPELT = Variant("x", "custom", effects=(Part("reprl.envs.variation.picture:Blur", {"sev": 1}),))


def play(env, steps, seed=0):
    """Step with seeded actions; everything that came out, comparable with ==."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(steps):
        observations, rewards, dones, infos = env.step(rng.integers(4, size=env.num_envs))
        episodes = [
            (i["episode"]["r"], i["episode"]["l"]) if "episode" in i else None for i in infos
        ]
        out.append(
            (
                observations.tobytes(),
                rewards.tobytes(),
                dones.tobytes(),
                [i["lives"] for i in infos],
                episodes,
            )
        )
    return out


@pytest.mark.slow
def test_workers_change_nothing():
    results = []
    for workers in (0, 1, 2):
        env = make_vec_env(MIXTURE, n_envs=5, seed=7, workers=workers, sticky=0.25)
        results.append([env.reset().tobytes(), play(env, 200), env.frames().tobytes()])
        env.close()
    assert results[0] == results[1] == results[2]
    assert any(episode for *_, episodes in results[0][1] for episode in episodes)


def test_seeds_give_games():
    def first(seed, reseed=None):
        env = make_vec_env(n_envs=3, seed=seed)
        if reseed is not None:
            env.seed(reseed)
        return env.reset().tobytes(), play(env, 30)

    assert first(1) == first(1)
    assert first(1) != first(2)
    assert first(1, reseed=2) == first(2)


def test_a_step_returns_fresh_arrays():
    env = make_vec_env(n_envs=2)
    kept = env.reset()
    copy = kept.copy()
    for _ in range(5):
        env.step(np.array([2, 3]))
    np.testing.assert_array_equal(kept, copy)


def test_stack_with_gaps_is_made_of_the_same_frames():
    dense, sparse = make_vec_env(n_envs=1, stack=7), make_vec_env(n_envs=1, stack=4, gap=2)
    np.testing.assert_array_equal(dense.reset()[:, ::2], sparse.reset())
    rng = np.random.default_rng(0)
    for _ in range(60):
        actions = rng.integers(4, size=1)
        np.testing.assert_array_equal(dense.step(actions)[0][:, ::2], sparse.step(actions)[0])


def test_reward_is_clipped_raw_or_scaled():
    rewards = {}
    for reward in ("clip", "raw", 0.5):
        env = make_vec_env(n_envs=1, reward=reward, training=False)
        env.reset()
        total = 0.0
        for _ in range(400):
            ball, paddle = env.objects()[0].ball, env.objects()[0].paddle
            aim = 0 if ball is None else np.sign(ball.center[0] - paddle.center[0])
            total += env.step(np.array([{0: 0, 1: 2, -1: 3}[int(aim)]]))[1][0]
        rewards[reward] = total
    assert rewards["raw"] > rewards["clip"] > 0
    assert rewards[0.5] == rewards["raw"] / 2


def test_negative_action_leaves_an_environment_untouched():
    env, alone = make_vec_env(n_envs=2, seed=4), make_vec_env(n_envs=2, seed=4)
    env.reset(), alone.reset()
    rng = np.random.default_rng(0)
    for step in range(60):
        action = rng.integers(4)
        expected = alone.step(np.array([action, action]))
        got = env.step(np.array([action, -1]))
        np.testing.assert_array_equal(got[0][0], expected[0][0])
        assert (got[1][1], got[2][1]) == (0.0, False)
        if step == 0:
            still = got[0][1]
        np.testing.assert_array_equal(got[0][1], still)


def test_a_queued_game_is_the_same_in_any_slot_and_variant():
    env = make_vec_env(n_envs=3, seed=0, training=False)
    env.queue(0, 123)
    env.queue(2, 123, "green_lines")
    observations = env.reset()
    assert (observations[0] != observations[2]).any()
    rng = np.random.default_rng(0)
    for _ in range(80):  # shorter than any game
        dones = env.step(np.repeat(rng.integers(4), 3))[2]
        assert not dones.any()
        first, other, third = env.objects()
        assert (first.ball, first.paddle, first.lives) == (third.ball, third.paddle, third.lives)
    assert not first.distractor.any()
    assert third.distractor.any()
    assert (first.ball, first.paddle) != (other.ball, other.paddle)


def test_a_queued_variant_is_for_one_game_only():
    """Also across a snapshot taken in that game; older snapshots kept it for good."""
    short = {"n_envs": 1, "max_frames": 200, "training": False}
    env, other = make_vec_env("ball_decoys", **short), make_vec_env("noise", **short)
    env.queue(0, 5, "green_lines")
    env.queue(0, 6)
    env.reset()
    other.restore(env.snapshot())

    def names(env):
        found = []
        while len(found) < 4:
            name = env.get_attr("variant")[0].name
            if env.step(np.array([0]))[2][0]:
                found.append(name)
        return found

    assert names(env) == names(other) == ["green_lines", *["ball_decoys"] * 3]
    env.queue(0, 5, "green_lines")
    env.reset()
    (emulator,) = env._block.emulators
    meta, blob = emulator.snapshot()
    del meta["own"]
    emulator.restore(json.loads(json.dumps(meta)), blob)
    assert names(env) == ["green_lines"] * 4


def test_a_game_that_ends_within_its_start_begins_anew():
    env = make_vec_env(n_envs=1, max_frames=200, noop_max=1000, training=False, seed=2)
    env.reset()
    lengths = []
    for _ in range(150):
        _, _, dones, infos = env.step(np.array([0]))
        lengths += [infos[0]["episode"]["l"]] if dones[0] else []
    assert len(lengths) > 3
    assert set(lengths) == {200}


def test_truncation_is_reported_as_a_time_limit():
    env = make_vec_env(n_envs=1, max_frames=400, training=False)
    env.reset()
    ends = []
    for _ in range(300):
        ball, paddle = env.objects()[0].ball, env.objects()[0].paddle
        aim = 0 if ball is None else int(np.sign(ball.center[0] - paddle.center[0]))
        _, _, dones, infos = env.step(np.array([{0: 0, 1: 2, -1: 3}[aim]]))
        if dones[0]:
            ends.append((infos[0]["TimeLimit.truncated"], infos[0]["episode"]["l"]))
    assert ends
    assert all(truncated and length == 400 for truncated, length in ends)


def continued(snapshot: bytes, variant: str, workers: int, steps: int) -> str:
    script = str(Path(__file__).with_name("continue_snapshot.py"))
    command = [sys.executable, script, variant, str(workers), str(steps)]
    done = subprocess.run(command, input=snapshot, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.mark.slow
def test_a_snapshot_continues_identically_in_another_process():
    """Sticky actions, a moving and a physical variant, workers 0 and 2, 2,000 further steps."""
    variant = "moving_square,drift_left,strobing_bricks"
    env = make_vec_env(variant.split(","), n_envs=3, seed=5, sticky=0.25)
    env.reset()
    play(env, 150)
    snapshot = env.snapshot()
    digest = runpy.run_path(str(Path(__file__).with_name("continue_snapshot.py")))["digest"]
    assert [continued(snapshot, variant, w, 2000) for w in (0, 2)] == [digest(env, 2000)] * 2


def test_snapshots_refuse_damage_and_other_settings():
    env = make_vec_env(n_envs=1)
    with refuses("reset"):
        env.snapshot()
    env.reset()
    snapshot = env.snapshot()
    with refuses("checksum"):
        env.restore(snapshot[:-1])
    with refuses("checksum"):
        env.restore(snapshot[:200] + b"x" + snapshot[201:])
    for other in (b"something else", "text", None):
        with refuses("not an environment snapshot"):
            env.restore(other)
    with refuses("sticky", "0.0", "0.5"):
        make_vec_env(n_envs=1, sticky=0.5).restore(snapshot)
    with refuses("1 environments", "2"):
        make_vec_env(n_envs=2).restore(snapshot)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"game": "brekout"}, ["'brekout'", "'breakout'"]),
        ({"game": "warlords"}, ["'warlords'"]),  # ALE has it for four players only
        ({"variant": "green_line"}, ["'green_line'", "'green_lines'"]),
        ({"variant": []}, ["empty"]),
        ({"variant": None}, ["variant", "None"]),
        ({"variant": 5}, ["variant", "5"]),
        ({"variant": MIXTURE, "n_envs": 2}, ["3 variants", "n_envs=2"]),
        ({"variant": MISSPELT, "n_envs": 1, "workers": 1}, ["picture:Blur'", "TypeError", "sev"]),
        ({"n_envs": 2, "workers": 3}, ["workers=3", "0 to 2"]),
        ({"severity": 0.5}, ["'original'", "severity"]),
        ({"variant": "drift_left", "game": "pong"}, ["'drift_left'", "'pong'"]),
        ({"reward": "clipped"}, ["reward=clipped", "clip, raw"]),
    ],
)
def test_bad_input_is_refused(arguments, names):
    with refuses(*names):
        make_vec_env(**arguments)


def test_wrong_actions_and_early_steps_are_refused():
    env = make_vec_env(n_envs=1)
    with refuses("reset"):
        env.step(np.array([0]))
    env.reset()
    with refuses("action 4", "NOOP, FIRE, RIGHT, LEFT"):
        env.step(np.array([4]))
    env = make_vec_env(n_envs=2)
    env.reset()
    for wrong in ([2], 2, [2.0, np.nan], [1.7, 1.7], [True, False], [[1, 2]]):
        with refuses("2 whole numbers"):
            env.step(np.array(wrong))
    env.step(np.array([3, -1], np.int8))


def test_training_and_evaluation_refuse_the_same_settings(commands):
    for wrong, names in (
        (["env.variant=[original,noise,blur]", "env.n_envs=2"], ["3 variants", "env.n_envs=2"]),
        (["env.sticky=1"], ["env.sticky=1", "0 to 0.99"]),
    ):
        commands.refuse(["train", *wrong, "device=cpu"], *names)
    with refuses("sticky=1.0", "0 to 0.99"):
        convert("sticky", "1", KEYS["sticky"])


def test_numbers_of_numpy_are_as_good_as_pythons():
    three, half = np.int64(3), np.float32(0.5)
    env = make_vec_env(n_envs=three, seed=three, stack=three, reward=half, sticky=half)
    env.seed(np.int32(7))
    env.queue(np.int64(1), np.int64(5))
    env.reset()
    assert [type(v) for v in (env.settings.stack, env.settings.reward)] == [int, float]
    other = make_vec_env(n_envs=3, stack=3, reward=0.5, sticky=0.5)
    other.restore(env.snapshot())
    assert play(other, 20) == play(env, 20)


def test_seeds_are_checked_where_they_are_given():
    env = make_vec_env(n_envs=1)
    for wrong in (-1, 2.5, "x"):
        with refuses(f"seed={wrong}"):
            env.queue(0, wrong)
        with refuses(f"seed={wrong}"):
            env.seed(wrong)
    assert env.reset().any()


def test_a_tall_game_goes_on_from_a_snapshot():
    """A European console: 250 rows, its own colours, gray ones after an odd number of lines."""
    env = make_vec_env("noise", n_envs=1, seed=4, game="air_raid")
    env.reset()
    assert env.frames().shape == (1, 250, 160, 3)
    play(env, 40)
    other = make_vec_env("noise", n_envs=1, game="air_raid")
    other.restore(env.snapshot())
    np.testing.assert_array_equal(other.frames(), env.frames())
    assert play(other, 60, seed=1) == play(env, 60, seed=1)


def test_sb3_sees_a_monitored_environment():
    env = make_vec_env(n_envs=1)
    assert env.env_is_wrapped(Monitor) == [True]
    assert env.get_attr("index") == [0]
