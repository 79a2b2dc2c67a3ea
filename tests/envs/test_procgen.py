"""Procgen: names, levels and refusals without EnvPool; the adapter; and EnvPool's own pictures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from reprl.config import schema
from reprl.envs import game, make_vec_env, procgen_levels
from reprl.envs.games import canonical
from reprl.envs.preview import contact_sheet, video
from reprl.envs.procgen_names import LEVELS, OTHERS, SCORES, check_levels, level_of, score_range
from reprl.envs.variation import find, variants
from tests.helpers import refuses
from tests.toys.pool import LONGEST, Pool, install

COIN = "procgen/coinrun"


def levels_of(levels: int, start: int = 0, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(
        game=COIN, levels=levels, start_level=start, **{"distribution": "easy"} | more
    )


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install(monkeypatch)
    yield
    procgen_levels.require_envpool.cache_clear()


# -- without EnvPool ---------------------------------------------------------------------------


def test_names_as_people_write_them() -> None:
    for name in ("procgen/coinrun", "procgen/CoinRun", "procgen/coin_run"):
        assert canonical(name) == COIN
    assert game(COIN).cartridge == COIN
    assert not game(COIN).has_truth
    assert variants(COIN) == ["original", "unseen"]
    assert "unseen" not in variants("breakout")


def test_what_is_not_there_is_refused() -> None:
    with refuses("coinrum", "Did you mean 'coinrun'?"):
        game("procgen/coinrum")
    with refuses("'coinrun'", "env=procgen env.game=coinrun"):
        game("coinrun")
    with refuses("'unseen'", "only in"):
        find("unseen", None, "pong")
    with refuses("'green_lines'", "only original and unseen"):
        find("green_lines", None, COIN)
    with refuses("distribution=memory", "easy, hard, exploration"):
        check_levels(levels_of(200, distribution="memory"))
    with refuses("start_level=2147483646", "levels=200", "last level"):
        check_levels(levels_of(200, 2**31 - 2))
    with refuses("levels=5", "pong"):
        make_vec_env(game="pong", n_envs=1, levels=5)


def test_training_and_unseen_levels_share_none_and_are_all() -> None:
    some = levels_of(5, 3)
    seen = {level_of(some, "original", seed) for seed in range(200)}
    assert seen == {3, 4, 5, 6, 7}
    other = [level_of(some, "levels", seed) for seed in range(200)]
    assert not seen & set(other)
    assert len(set(other)) == 200
    assert max(other) > LEVELS // 2
    almost = levels_of(LEVELS - 3, 2)  # all but the first two and the last
    assert {level_of(almost, "levels", seed) for seed in range(60)} == {0, 1, LEVELS - 1}
    assert level_of(levels_of(0), "original", 7) == level_of(levels_of(0), "original", 7)


def test_published_scores_of_all_games() -> None:
    assert len(SCORES) == 16
    assert set(OTHERS) <= set(SCORES)
    assert score_range(COIN, "hard") == (5, 10)
    assert score_range("procgen/starpilot", "easy") == (2.5, 64)
    assert score_range("procgen/starpilot", "hard") == (1.5, 35)
    assert score_range("procgen/starpilot", "extreme") is None


def test_without_envpool_or_qt_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    procgen_levels.require_envpool.cache_clear()
    monkeypatch.setitem(sys.modules, "envpool", None)
    with refuses("pip install 'reprl[procgen]'"):
        make_vec_env(game=COIN, n_envs=1)
    with refuses("pip install 'reprl[procgen]'"):
        schema.load(["env=procgen"])

    class NoQt:
        def __getattr__(self, name: str) -> Any:
            raise ImportError("EnvPool Procgen requires the system Qt 5 runtime on Linux.")

    install(monkeypatch)
    monkeypatch.setitem(sys.modules, "envpool.procgen", NoQt())
    with refuses("libqt5gui5"):
        make_vec_env(game=COIN, n_envs=1)


def test_the_configuration(stand_in: None) -> None:
    config = schema.load(["env=procgen", "env.game=BigFish", "env.levels=500"])
    assert config.env.game == "procgen/bigfish"
    assert config.eval.variants == ["original", "unseen"]
    assert config.choices["encoder"] == "impala"
    assert config.method == "procgen-bigfish_levels_500-ppo-impala"
    again = schema.check(config.plain() | {"run_dir": None})
    assert again.env == config.env
    assert again.hash == config.hash
    usual = schema.load(["experiment=procgen_drac"])
    assert usual.method == "procgen-coinrun-ppo-impala-drac"
    assert "levels" not in usual.plain()["env"]
    assert schema.check(usual.plain() | {"run_dir": None}).env == usual.env


# -- the adapter, with a stand-in --------------------------------------------------------------


def made(n_envs: int = 3, seed: int = 5, **more: Any) -> Any:
    return make_vec_env(game=COIN, n_envs=n_envs, seed=seed, **more)


def test_games_are_levels(stand_in: None) -> None:
    env = made(2, levels=9, start_level=100, reward=0.5)
    assert env.observation_space.shape == (3, 64, 64)
    assert env.channels == 3
    assert (env.settings.stack, env.settings.size) == (1, 64)
    env.queue(0, 17)
    env.queue(1, 17, "unseen")
    seen = env.reset()
    assert 100 <= seen[0, 0, 0, 0] < 109
    assert seen[1, 0, 0, 0] == level_of(env.settings, "levels", 17) % 256
    assert env.frame(1).shape == (192, 192, 3)
    assert env.frame(1)[0, 0].tolist() == seen[1, :, 0, 0].tolist()
    for k in range(3):
        seen, rewards, dones, infos = env.step(np.array([7, -1]))
        assert rewards.tolist() == [0.5, 0]
        assert dones.tolist() == [k == 2, False]
    assert infos[0]["episode"]["r"] == 3
    assert infos[0]["terminal_observation"][1, 0, 0] == 2  # the last that was shown of this game
    assert seen[0, 1, 0, 0] == 0
    env.queue(1, 3)
    assert 100 <= env.restart(1)[0, 0, 0] < 109
    with refuses("objects()", "procgen/coinrun"):
        env.objects()
    env.close()
    assert Pool.open == 0


def test_a_level_that_takes_too_long_ends_like_any_other(stand_in: None) -> None:
    env = made(1)
    env.reset()
    for _ in range(LONGEST):
        _, _, dones, infos = env.step(np.array([0]))
    assert dones[0]
    assert not infos[0]["TimeLimit.truncated"]
    assert infos[0]["episode"]["l"] == LONGEST


def test_a_restored_environment_goes_on_with_the_same_levels(stand_in: None) -> None:
    def played(env: Any, actions: np.ndarray) -> list[Any]:
        return [part for row in actions for part in env.step(row)[:3]]

    actions = np.random.default_rng(0).integers(6, 9, (90, 3))
    env = made(variant=["original", "unseen"])
    env.reset()
    played(env, actions[:31])
    snapshot, expected = env.snapshot(), played(env, actions[31:])
    other = made(seed=99, variant=["original", "unseen"])
    other.restore(snapshot)
    assert not other.lost
    for a, b in zip(expected, played(other, actions[31:]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_sheet_of_levels(stand_in: None, tmp_path: Path) -> None:
    sheet = Image.open(contact_sheet(tmp_path / "levels.png", game="procgen/CoinRun"))
    assert sheet.size == (6 * 206 + 14, 2 * (42 + 192 + 14))
    with refuses("scripted agent", "procgen/coinrun"):
        video(tmp_path / "levels.mp4", "original", game=COIN)


def test_what_ale_alone_has_is_refused(stand_in: None) -> None:
    for more in ({"sticky": 0.25}, {"gray": False}, {"skip": 2}, {"background": 1.0}):
        with refuses(next(iter(more)), "ALE's"):
            made(1, **more)
    with refuses("observation=objects", "procgen/coinrun"):
        made(1, observation="objects")
    with refuses("levels=0", "unseen"):
        made(1, levels=0, variant="unseen")


# -- EnvPool itself ----------------------------------------------------------------------------


def test_a_level_is_envpools_own() -> None:
    """The same level met in a pool of 200, played by the same actions."""
    envpool = pytest.importorskip("envpool")
    try:
        importlib_procgen = __import__("envpool.procgen", fromlist=["ProcgenEnvSpec"])
        importlib_procgen.ProcgenEnvSpec  # noqa: B018
    except ImportError as error:
        pytest.skip(str(error))
    procgen_levels.require_envpool.cache_clear()
    theirs = envpool.make_gymnasium("CoinrunEasy-v0", num_envs=2, num_levels=200, seed=3)
    seen, info = theirs.reset()
    ours = [procgen_levels.ProcgenLevel("coinrun", "easy") for _ in range(2)]
    for row, level in enumerate(ours):
        first, _ = level.reset(seed=int(info["level_seed"][row]))
        np.testing.assert_array_equal(first, seen[row])
    over = np.zeros(2, bool)
    for action in np.random.default_rng(0).integers(15, size=40):
        seen, rewards, ended, cut, _ = theirs.step(np.full(2, action, np.int32))
        for row, level in enumerate(ours):
            if not over[row]:
                picture, reward, done, _, _ = level.step(int(action))
                assert reward == rewards[row]
                assert done == bool(ended[row] or cut[row])
                if not done:
                    np.testing.assert_array_equal(picture, seen[row])
        over |= ended | cut
    assert not over.all()
    for level in ours:
        level.close()
