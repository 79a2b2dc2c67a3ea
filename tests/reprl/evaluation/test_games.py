"""Whose games are played: each training seed's own, the same for all methods, or shared by all."""

import itertools
import shutil

import numpy as np
import pandas as pd
import pytest
from players import PixelAgent

from reprl import tables
from reprl.cli import main
from reprl.envs import find
from reprl.evaluation import RandomAgent, Task, evaluate, twin_evaluation
from reprl.evaluation.campaign import missing
from reprl.rng import numpy_stream, stream_seed
from reprl.schema import EPISODES
from tests.helpers import refuses

pytestmark = pytest.mark.slow  # plays games

SMALL = {"size": 36, "stack": 2, "n_envs": 4}


def trained(seed, name="pixels"):
    agent = PixelAgent(name)
    agent.labels = agent.labels | {"train_seed": seed}
    return agent


def test_the_shared_rule_is_the_one_old_files_were_played_by():
    task = Task(find("original"), 7, 3)
    assert task.game_seed == stream_seed(3, "evaluation", "game", 7)
    assert task.uniforms().random() == numpy_stream(3, "evaluation", "act", 7).random()


def test_every_training_seed_has_games_of_its_own():
    tasks = [
        Task(find("original"), e, seed, own)
        for e, seed, own in itertools.product(range(30), range(2), (None, 0, 1, 2))
    ]
    assert len({t.game_seed for t in tasks}) == len(tasks)
    assert len({t.uniforms().random() for t in tasks}) == len(tasks)


def test_methods_of_one_seed_play_the_same_games_and_other_seeds_others():
    first, same = trained(1), trained(1, "another")
    other, shared = trained(2), trained(2)
    tables = [evaluate(a, ["original", "green_lines"], 2, **SMALL) for a in (first, same, other)]
    tables.append(evaluate(shared, ["original", "green_lines"], 2, games="shared", **SMALL))
    seeds = [t["game_seed"].tolist() for t in tables]
    assert seeds[0] == seeds[1]
    assert seeds[0][:2] == seeds[0][2:]  # and on every variant
    assert not set(seeds[0]) & set(seeds[2])
    assert not set(seeds[2]) & set(seeds[3])
    assert tables[0]["episode_return"].equals(tables[1]["episode_return"])
    assert first.uniforms == same.uniforms  # the actions' stream belongs to the game too
    starts = [a.uniforms[("original", 0)][0] for a in (first, other, shared)]
    assert len(set(starts)) == 3


def test_players_that_nobody_trained_share_their_games():
    table = evaluate(RandomAgent(), "original", 2, **SMALL)
    want = [stream_seed(0, "evaluation", "game", e) for e in range(2)]
    assert table["game_seed"].tolist() == want
    with refuses("own, shared"):
        evaluate(RandomAgent(), "original", 1, games="pared", **SMALL)


def test_a_file_without_the_column_was_played_by_the_shared_rule(tmp_path):
    path = tmp_path / "episodes.csv"
    table = evaluate(trained(1), "original", 3, games="shared", **SMALL)
    table.drop(columns="game_seed").to_csv(path, index=False)
    there, damaged = tables.read(path, EPISODES)
    assert damaged == 0
    pd.testing.assert_frame_equal(there, table)
    shared = [Task(find("original"), e, 0) for e in range(3)]
    own = [Task(find("original"), e, 0, 1) for e in range(3)]
    same = {"method": "pixels", "step": 0, "deterministic": False, "sticky": 0.0}
    assert missing(there, shared, **same) == []
    assert missing(there, own, **same) == own
    more = evaluate(trained(1), "original", 3, **SMALL)
    assert len(tables.merge(path, more, EPISODES)) == 6  # both rules, side by side
    again, _ = tables.read(path, EPISODES)
    assert again["game_seed"].tolist() == [*table["game_seed"], *more["game_seed"]]  # to the bit


def test_a_damaged_seed_costs_only_its_own_row(tmp_path):
    path = tmp_path / "episodes.csv"
    table = evaluate(trained(1), "original", 3, **SMALL)
    table.astype({"game_seed": object}).assign(
        game_seed=[str(table["game_seed"][0]), "torn", str(table["game_seed"][2])]
    ).to_csv(path, index=False)
    there, damaged = tables.read(path, EPISODES)
    assert damaged == 1
    assert there["game_seed"].tolist() == table["game_seed"].iloc[[0, 2]].tolist()


def test_a_twin_is_evaluations_own_game(model):
    """The clean game of a twin evaluation is the run's first episode on the original."""
    seed = int(model.seed)
    for games, own in (("own", seed), ("shared", None)):
        twin = twin_evaluation(model, "green_lines", steps=3, seed=4, games=games)
        task = Task(find("original"), 0, 4, own)
        assert set(twin["game_seed"]) == {task.game_seed}
        table = evaluate(model, "original", 1, 4, games=games)
        assert table["game_seed"].tolist() == [task.game_seed]


def test_the_command_plays_own_games_by_default_and_shared_on_request(runs, capsys):
    shutil.rmtree(runs / "unfinished")
    options = ["variants=original", "episodes=2", "workers=0", "n_envs=8", "agents=random"]
    assert main(["evaluate", str(runs), *options]) == 0
    said = capsys.readouterr().err
    assert "4 games of 2 runs to play: about" in said
    files = [runs / n / "evaluation" / "episodes.csv" for n in ("first", "second", "baselines")]
    first, second, random = (pd.read_csv(f)["game_seed"].tolist() for f in files)
    assert not set(first) & set(second)
    assert random == [stream_seed(0, "evaluation", "game", e) for e in range(2)]
    assert main(["evaluate", str(runs), *options, "games=shared", "progress=off"]) == 0
    tables = [pd.read_csv(f) for f in files]
    assert [len(t) for t in tables] == [4, 4, 2]
    assert tables[0]["game_seed"].tolist() == [*first, *random]
    out = capsys.readouterr().out.splitlines()
    shared = tables[0]["episode_return"][2:]
    assert any("first" in line and f"{np.mean(shared):.1f} (2)" in line for line in out)
