"""Reward shaping: its numbers by hand, the best policy kept, the game's score left alone."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reprl.algorithms import PPO
from reprl.checkpoint import steps
from reprl.cli import main
from reprl.config.schema import load
from reprl.envs import Box, Objects, make_vec_env
from reprl.envs.shaping import (
    GameState,
    Nearness,
    Potential,
    RewardShaping,
    Survival,
    Transition,
    with_discount,
)
from reprl.evaluation.players import model_labels
from tests.helpers import refuses
from tests.runs import TINY, same_runs
from tests.toys.shaping import Broken, Counted, Upright

NEARNESS: dict[str, Any] = {"_target_": "reprl.envs.shaping.Nearness", "coef": 2.0, "gamma": 0.9}


class Listed(Potential):
    """The potential of a state is in a list, by the state's number."""

    values: list[float]

    def potential(self, state: GameState) -> float:
        return self.values[int(state.observation[0])]


def listed(values: list[float], gamma: float) -> Listed:
    made = Listed(gamma=gamma)
    made.values = values
    return made


def numbered(state: int) -> GameState:
    return GameState(np.array([state]), lambda: None)


def step_to(state: int, reward: float, *, over: bool = False, cut: bool = False) -> Transition:
    return Transition(numbered(state), 0, reward, reward, over, cut)


def test_an_episode_is_worth_its_first_potential_less_by_hand() -> None:
    shaping = listed([2.0, 4.0, 8.0], 0.5)
    shaping.begin(numbered(0))
    first = shaping.reward(step_to(1, 0.0))
    last = shaping.reward(step_to(2, 1.0, over=True))
    # 0 + 0.5 * 4 - 2 and 1 + 0.5 * 0 - 4: after an end the potential is 0, whatever the state
    assert [first, last] == [0.0, -3.0]
    assert first + 0.5 * last == (0.0 + 0.5 * 1.0) - 2.0


def test_where_time_runs_out_the_last_potential_counts() -> None:
    shaping = listed([2.0, 4.0], 0.5)
    shaping.begin(numbered(0))
    # its value, which is smaller by that potential, is added beyond the limit
    assert shaping.reward(step_to(1, 1.0, cut=True)) == 1.0 + 0.5 * 4.0 - 2.0


# a game of three states and two actions: the next state (3 is the end) and the reward
NEXT = [[1, 2], [0, 3], [1, 3]]
PAYS = [[0.0, 0.3], [0.0, 1.0], [0.0, 0.4]]
GAMMA = 0.8


def action_values(shaping: RewardShaping | None) -> np.ndarray:
    """Q (3, 2) of the game by value iteration, with the rewards that a shaping makes."""
    rewards = np.array(PAYS)
    for state in range(3) if shaping is not None else ():
        for action in range(2):
            assert shaping is not None
            shaping.begin(numbered(state))
            after = NEXT[state][action]
            rewards[state, action] = shaping.reward(
                step_to(after, PAYS[state][action], over=after == 3)
            )
    found = np.zeros((3, 2))
    for _ in range(300):
        best = np.append(found.max(1), 0.0)
        found = rewards + GAMMA * best[np.array(NEXT)]
    return found


def test_the_best_policy_stays_the_best() -> None:
    plain = action_values(None)
    # by hand: state 1 ends for 1; from 0 that is 0.8 away by 1, 0.3 + 0.8 * 0.8 by way of 2
    np.testing.assert_allclose(plain[0], [0.8, 0.3 + 0.8 * 0.8], atol=1e-9)
    for values in ([5.0, -3.0, 0.5], [0.0, 10.0, 0.0], [-7.0, 2.0, 9.0]):
        shaped = action_values(listed([*values, 99.0], GAMMA))
        np.testing.assert_allclose(shaped, plain - np.array(values)[:, None], atol=1e-9)
        assert shaped.argmax(1).tolist() == plain.argmax(1).tolist() == [1, 1, 0]
    # with another discount than the learner's it need not
    other = action_values(listed([0.0, 10.0, 0.0, 0.0], 0.0))
    assert other.argmax(1).tolist() != plain.argmax(1).tolist()


def seen(**boxes: Box | None) -> GameState:
    objects = Objects(boxes=dict(boxes))
    return GameState(np.zeros(0), lambda: objects)


def test_nearness_by_hand() -> None:
    near = Nearness()
    paddle, ball = Box(20, 189, 16, 4), Box(90, 100, 2, 4)  # their middles are 28 and 91
    assert near.potential(seen(paddle=paddle, ball=ball)) == 1 - 63 / 160
    assert near.potential(seen(paddle=paddle, ball=None)) == 0.0
    upright = Nearness(axis="y")
    assert upright.potential(seen(paddle=paddle, ball=ball)) == 1 - (191 - 102) / 210
    top = Nearness(of="ball", to="top", axis="y")
    assert top.potential(seen(ball=ball)) == 1 - 102 / 210
    right = Nearness(of="ball", to="right")
    assert right.potential(seen(ball=ball)) == 1 - 69 / 160


def test_survival_by_hand() -> None:
    shaping = Survival(alive=0.25, lost=-2.0)
    assert shaping.reward(step_to(0, 1.0)) == 1.25
    assert shaping.reward(step_to(0, 1.0, over=True)) == -1.0
    assert shaping.reward(step_to(0, 1.0, cut=True)) == 1.25


def played(env: Any, actions: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    found = []
    for row in actions:
        observations, rewards, dones, infos = env.step(row)
        lives = np.array([info["lives"] for info in infos])
        scores = np.array([info["raw_reward"] for info in infos])
        found.append((observations, rewards, dones, lives, scores))
    return found


ACTIONS = np.random.default_rng(0).integers(0, 4, (150, 2))


def test_rewards_of_breakout_follow_the_truth_and_nothing_else_changes() -> None:
    """Against a twin without shaping, whose truth is asked for after every step."""
    with_it = make_vec_env(n_envs=2, seed=3, shaping=NEARNESS)
    twin = make_vec_env(n_envs=2, seed=3)
    with_it.reset()
    twin.reset()
    phi = Nearness(coef=2.0, gamma=0.9)

    def potentials() -> np.ndarray:
        return np.array(
            [2.0 * phi.potential(GameState(np.zeros(0), lambda o=o: o)) for o in twin.objects()]  # type: ignore[misc]
        )

    before, ended = potentials(), 0
    for row in ACTIONS:
        theirs, plain = with_it.step(row), twin.step(row)
        np.testing.assert_array_equal(theirs[0], plain[0])
        np.testing.assert_array_equal(theirs[2], plain[2])
        assert [i["raw_reward"] for i in theirs[3]] == [i["raw_reward"] for i in plain[3]]
        after = potentials()
        # at an end the truth that can be asked for is the next life's
        expected = plain[1] + 0.9 * np.where(plain[2], 0.0, after) - before
        np.testing.assert_allclose(theirs[1], expected, atol=1e-6)
        ended += int(plain[2].sum())
        before = after
    assert ended > 2
    assert float(np.abs(before).max()) > 0


@pytest.mark.parametrize("spec", [NEARNESS, {"_target_": "tests.toys.shaping.Counted"}])
def test_a_snapshot_holds_what_a_shaping_remembers(spec: dict[str, Any]) -> None:
    env = make_vec_env(n_envs=2, seed=1, shaping=spec)
    env.reset()
    played(env, ACTIONS[:40])
    snapshot, expected = env.snapshot(), played(env, ACTIONS[40:80])
    other = make_vec_env(n_envs=2, seed=9, shaping=spec)
    other.restore(snapshot)
    for first, second in zip(expected, played(other, ACTIONS[40:80]), strict=True):
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)
    with refuses("snapshot", "shaping"):
        make_vec_env(n_envs=2).restore(snapshot)


@pytest.mark.slow
def test_workers_shape_alike() -> None:
    found = []
    for workers in (0, 1):
        env = make_vec_env(n_envs=2, seed=1, workers=workers, shaping=Counted)
        env.reset()
        found.append([step[1] for step in played(env, ACTIONS[:50])])
        env.close()
    np.testing.assert_array_equal(*found)
    assert found[0][2][0] >= 300  # the third step of its episode


def test_an_environment_of_gymnasium_is_shaped_by_its_numbers_and_restored() -> None:
    spec = {"_target_": "tests.toys.shaping.Upright", "gamma": 0.5}
    env: Any = make_vec_env(game="gymnasium/CartPole-v1", n_envs=2, seed=5, shaping=spec)
    before = -np.abs(env.reset()[:, 2])
    actions = np.random.default_rng(1).integers(0, 2, (60, 2))
    for row in actions[:30]:
        shown, rewards, dones, infos = env.step(row)
        last = [i.get("terminal_observation", s) for i, s in zip(infos, shown, strict=True)]
        after = np.where(dones, 0.0, -np.abs(np.array(last)[:, 2]))
        np.testing.assert_allclose(rewards, 1.0 + 0.5 * after - before, atol=1e-6)
        assert [i["raw_reward"] for i in infos] == [1.0, 1.0]
        before = -np.abs(shown[:, 2])
    snapshot, expected = env.snapshot(), [env.step(row)[1] for row in actions[30:]]
    other: Any = make_vec_env(game="gymnasium/CartPole-v1", n_envs=2, seed=6, shaping=spec)
    other.restore(snapshot)
    for row, rewards in zip(actions[30:], expected, strict=True):
        np.testing.assert_array_equal(other.step(row)[1], rewards)


def test_the_discount_is_the_algorithms_unless_said() -> None:
    spec = {"_target_": "reprl.envs.shaping.Nearness", "gamma": None}
    assert with_discount(spec, 0.97)["gamma"] == 0.97
    assert with_discount({**spec, "gamma": 0.5}, 0.97)["gamma"] == 0.5
    survival = {"_target_": "reprl.envs.shaping.Survival"}
    assert with_discount(survival, 0.97) == survival


def test_a_run_is_named_after_it() -> None:
    config = load([*TINY, "shaping=nearness"])
    assert config.method == "ppo_nearness-nature"
    assert load(TINY).method == "ppo-nature"
    assert "shaping" not in load(TINY).plain()
    env = make_vec_env(n_envs=2, shaping=NEARNESS)
    small: dict[str, Any] = {"n_steps": 8, "batch_size": 8, "device": "cpu", "seed": 0}
    assert "_nearness" in model_labels(PPO("CnnPolicy", env, **small))["method"]


def test_what_it_is_not_for_is_refused() -> None:
    with refuses("shaping", "nearnes", "'nearness'"):
        make_vec_env(shaping="nearnes")
    with refuses("shaping.gamma", "0.99"):
        make_vec_env(shaping="nearness")
    with refuses("Nearness", "objects", "seaquest"):
        make_vec_env(game="seaquest", shaping=NEARNESS)
    with refuses("shaping.of=padle", "'paddle'"):
        make_vec_env(shaping=NEARNESS | {"of": "padle"})
    with refuses("shaping.axis=x", "axis=y"):
        make_vec_env(shaping=NEARNESS | {"to": "top"})
    with refuses("training=False", "shaping"):
        make_vec_env(shaping=NEARNESS, training=False)
    with refuses("shaping", "RewardShaping"):
        make_vec_env(shaping={"_target_": "tests.helpers.Commands"})
    with refuses("shaping", "sped", "alive"):
        make_vec_env(shaping={"_target_": "reprl.envs.shaping.Survival", "sped": 1})
    env = make_vec_env(n_envs=1, shaping=Broken)
    env.reset()
    with refuses("Broken", "nan"):
        env.step(np.zeros(1, np.int64))


@pytest.mark.slow
def test_a_run_resumes_exactly_and_is_scored_by_the_games_own_points(tmp_path: Path) -> None:
    """With 5 points a step nobody could take these for Breakout's."""
    whole, again = tmp_path / "whole", tmp_path / "again"
    settings = [*TINY, "checkpoint.keep=9", "shaping=survival", "shaping.alive=5"]
    assert main(["train", *settings, f"run_dir={whole}"]) == 0
    shutil.copytree(whole, again)
    for step in steps(again)[1:]:
        shutil.rmtree(again / "checkpoints" / f"{step:012d}")
    record = again / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))
    assert main(["resume", str(again)]) == 0
    assert same_runs(whole, again)
    assert main(["evaluate", str(whole), "episodes=2", "workers=0", "progress=off"]) == 0
    games = pd.read_csv(whole / "evaluation" / "episodes.csv")
    games = pd.concat([games, pd.read_csv(whole / "evaluation" / "validation.csv")])
    assert (games["episode_return"] < 20).all()
    assert (games["length"] > 20).all()
    metrics = pd.read_csv(whole / "metrics.csv")
    assert (metrics["rollout/score"].dropna() < 20).all()


def test_upright_is_a_potential_of_the_users_own() -> None:
    made = Upright(coef=2.0, gamma=0.5)
    made.begin(GameState(np.array([0, 0, 0.25, 0]), lambda: None))
    assert made.phi == -0.5


def test_the_documentations_own_example_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text()
    code = page.partition("# my_shaping.py")[2].partition("```")[0]
    (tmp_path / "my_shaping.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    env = make_vec_env(n_envs=1, shaping={"_target_": "my_shaping.Careful", "price": 0.5})
    env.reset()
    # NOOP, then RIGHT costs a turn, RIGHT again none, LEFT another
    rewards = [float(env.step(np.array([action]))[1][0]) for action in (0, 2, 2, 3)]
    assert rewards == [0.0, -0.5, 0.0, -0.5]
    high = make_vec_env(n_envs=1, shaping={"_target_": "my_shaping.High", "gamma": 1.0})
    high.reset()
    before = high.objects()[0].ball
    paid = float(high.step(np.array([0]))[1][0])
    after = high.objects()[0].ball
    assert before is not None
    assert after is not None
    assert paid == pytest.approx((before.y - after.y) / 210, abs=1e-6)
