"""`reprl evaluate`: folders of all kinds, reuse, protocols side by side, and wrong input."""

import hashlib
import json
import shutil

import pandas as pd
import pytest

from reprl.cli import main
from reprl.evaluation import COLUMNS, RandomAgent, evaluate
from reprl.evaluation.episodes import Arena

pytestmark = pytest.mark.slow  # plays games

CHEAP = ["workers=0", "n_envs=8", "progress=off"]


def run(capsys, *arguments):
    code = main(["evaluate", *map(str, arguments), *CHEAP])
    return code, capsys.readouterr()


@pytest.fixture
def played(monkeypatch):
    """Counts the games that are really played."""
    games = []
    play = Arena.play

    def counting(self, agent, tasks):
        for game in play(self, agent, tasks):
            games.append((agent.labels["run"], *game.task.key[:3]))
            yield game

    monkeypatch.setattr(Arena, "play", counting)
    return games


def test_a_sweep_is_evaluated_and_added_to(runs, capsys, played):
    code, out = run(capsys, runs, "variants=original,green_lines@1", "episodes=1")
    assert code == 0
    assert "unfinished has no checkpoint" in out.err
    assert len(played) == 6  # two runs and the random player on two variants
    files = [
        runs / name / "evaluation" / "episodes.csv" for name in ("baselines", "first", "second")
    ]
    tables = [pd.read_csv(file) for file in files]
    for table in tables:
        assert list(table.columns) == list(COLUMNS)
        assert table["variant"].tolist() == ["original", "green_lines"]
    second = tables[2].iloc[0]
    assert (second["run"], second["algo"], second["encoder"]) == ("second", "ppo", "nature_padded")
    assert (second["attention"], second["train_seed"], second["step"]) == ("conv", 2, 0)
    for name in ("first", "second", "random"):
        assert name in out.out

    played.clear()
    before = [file.read_text() for file in files]
    assert run(capsys, runs, "variants=green_lines@1,original", "episodes=1")[0] == 0
    assert played == []
    assert [file.read_text() for file in files] == before

    code, out = run(capsys, runs / "first", "variants=original", "episodes=3", "agents=none")
    assert sorted(played) == [("first", "original", None, 1), ("first", "original", None, 2)]
    assert files[1].read_text().startswith(before[1])
    assert "(3)" in out.out
    # What was added is what one evaluation of all three would have given.
    games = pd.read_csv(files[1])
    from reprl.checkpoint import load

    whole = evaluate(load(runs / "first"), "original", 3)
    got = games[games["variant"] == "original"]
    assert got["episode_return"].tolist() == whole["episode_return"].tolist()
    assert got["length"].tolist() == whole["length"].tolist()

    played.clear()
    place = runs / "first" / "checkpoints" / "000000000000"
    code, out = run(
        capsys, place, "variants=original", "episodes=3", "deterministic=true", "agents=none"
    )
    assert code == 0
    assert len(played) == 3
    assert "distinct games" in out.out
    games = pd.read_csv(files[1])
    assert games.groupby(["variant", "deterministic"]).size().to_dict() == {
        ("green_lines", False): 1,
        ("original", False): 3,
        ("original", True): 3,
    }


def test_the_random_player_is_measured_under_the_same_protocol(runs, capsys):
    options = ("variants=original", "episodes=2", "seed=9", "sticky=0.25")
    assert run(capsys, runs / "first", *options, "agents=random,scripted@0.2:ball")[0] == 0
    games = pd.read_csv(runs / "first" / "baselines" / "evaluation" / "episodes.csv")
    assert games["method"].unique().tolist() == ["random", "scripted skill=0.2 blind_to=ball"]
    expected = evaluate(RandomAgent(), "original", 2, 9, sticky=0.25, size=36)
    ours = games[games["method"] == "random"].reset_index(drop=True)
    pd.testing.assert_frame_equal(ours, expected, check_dtype=False)


def test_an_interrupted_evaluation_keeps_whole_variants_only(runs, capsys, monkeypatch):
    play = Arena.play

    def interrupted(self, agent, tasks):
        for count, game in enumerate(play(self, agent, tasks)):
            if count == 4:
                raise KeyboardInterrupt
            yield game

    monkeypatch.setattr(Arena, "play", interrupted)
    options = ("variants=original,green_lines", "episodes=3", "agents=none", "n_envs=1")
    assert main(["evaluate", str(runs / "first"), *options, "workers=0"]) == 130
    games = pd.read_csv(runs / "first" / "evaluation" / "episodes.csv")
    assert games["variant"].tolist() == ["original"] * 3


def test_twins_are_stored_and_reused(runs, capsys, monkeypatch):
    from reprl.evaluation import twin

    measured = []
    real = twin.twin_evaluation

    def counting(model, variants, *arguments, **options):
        measured.append([v.name for v in variants])
        return real(model, variants, *arguments, **options)

    monkeypatch.setattr(twin, "twin_evaluation", counting)
    place = runs / "second"
    code, out = run(capsys, place, "twin=true", "variants=green_lines,drift_left", "steps=8")
    assert code == 0
    assert "'drift_left'" in out.err
    code, out = run(capsys, place, "twin=true", "variants=green_lines,blur", "steps=8")
    assert measured == [["green_lines"], ["blur"]]
    rows = pd.read_csv(place / "evaluation" / "twin.csv")
    assert rows.groupby("variant").size().to_dict() == {"blur": 8, "green_lines": 8}
    assert rows[["js", "value_error", "feature_distance", "attention_shift"]].notna().all().all()
    run(capsys, place, "twin=true", "variants=green_lines,blur", "steps=8")
    assert len(measured) == 2


def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(runs, capsys):
    from reprl.checkpoint import load, save

    model = load(runs / "first")
    model.num_timesteps = 16
    newest = save(model, runs / "first")
    options = ("variants=original", "episodes=1", "agents=none")
    assert run(capsys, runs / "first", *options)[0] == 0
    (newest / "parameters.safetensors").write_bytes(b"")
    code, out = run(capsys, runs / "first", *options, "seed=1")
    assert code == 0
    assert "is damaged" in out.err
    games = pd.read_csv(runs / "first" / "evaluation" / "episodes.csv")
    assert games[["eval_seed", "step"]].to_numpy().tolist() == [[0, 16], [1, 0]]


def test_a_diverged_run_does_not_stop_a_sweep(runs, capsys, monkeypatch):
    from reprl.evaluation import players

    real = players.ModelAgent.probabilities

    def broken(self, observations):
        if self.labels["run"] == "first":
            from reprl.errors import UserError

            raise UserError("the policy's action probabilities are no numbers.")
        return real(self, observations)

    monkeypatch.setattr(players.ModelAgent, "probabilities", broken)
    code, out = run(capsys, runs, "variants=original", "episodes=1", "agents=none")
    assert code == 1
    assert "first is left out" in out.err
    assert (runs / "second" / "evaluation" / "episodes.csv").exists()
    assert not (runs / "first" / "evaluation" / "episodes.csv").exists()


@pytest.fixture
def old(runs):
    """A sweep whose first run has a checkpoint that an earlier version wrote."""
    place = runs / "first" / "checkpoints" / "000000000000"
    record = json.loads((place / "state.json").read_text())
    del record["meta"]["action_meanings"]
    text = json.dumps(record)
    (place / "state.json").write_text(text)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["sha256"]["state.json"] = hashlib.sha256(text.encode()).hexdigest()
    (place / "manifest.json").write_text(json.dumps(manifest))
    return runs


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "variants=original", "episodes=1", *CHEAP],
        ["evaluate", "twin=true", "variants=blur", "steps=8", *CHEAP],
        ["attention", "variant=original", "steps=16"],
    ],
)
def test_a_checkpoint_of_another_version_is_one_sentence(old, capsys, arguments):
    command, *options = arguments
    sentence = "'action_meanings'"
    assert main([command, str(old), *options]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if sentence in line]
    assert len(lines) == 1
    assert "WARNING: first is left out: checkpoint" in lines[0]
    done = "attention" if command == "attention" else "evaluation"
    assert list((old / "second" / done).glob("*.csv"))
    assert main([command, str(old / "first"), *options]) == 2
    assert sentence in capsys.readouterr().err


def test_any_error_of_one_run_is_said_by_its_name(runs, capsys, monkeypatch):
    from reprl.evaluation.checkpoints import Target

    def load(target):
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr(Target, "load", load)
    code, out = run(capsys, runs, "variants=original", "episodes=1", "agents=none")
    assert code == 1
    warned = [line for line in out.err.splitlines() if "is left out" in line]
    assert [line.rpartition(": ")[2] for line in warned] == ["two lines"] * 2
    assert "first is left out: ZeroDivisionError" in warned[0]


WRONG = {
    "": ["no runs in"],
    "variants=gren_lines": ["'green_lines'"],
    "variants=suite:publishd": ["'published'"],
    "episodes=0": ["episodes=0", "1"],
    "checkpoint=17": ["step 17", "0"],
    "checkpoint=best": ["best"],
    "checkpoint=²": ["checkpoint=²", "newest, best"],
    "checkpoint=newst": ["checkpoint=newst", "newest, best"],
    "agents=randm": ["'random'"],
    "agents=scripted:bal": ["'ball'"],
    "agents=scripted@much": ["skill=much", "0 to 1"],
    "severities=much": ["severities=much"],
    "variants=green_lines@7": ["severity=7.0", "0 to 1"],
    "twin=true variants=drift_left": ["picture"],
    "epsodes=3": ["'episodes'"],
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_input_is_one_sentence(sweep, tmp_path, commands, wrong):
    place = sweep / "first" if wrong else tmp_path
    commands.refuse(["evaluate", place, *wrong.split()], *WRONG[wrong])
    assert not (sweep / "first" / "evaluation" / "episodes.csv").exists()


def test_runs_without_checkpoints(sweep, commands):
    commands.refuse(["evaluate", sweep / "unfinished"], "unfinished", "checkpoint")
    commands.refuse(["evaluate", sweep / "first" / "checkpoints"], "no runs in")
    copy = sweep.parent / "copy of the best"
    shutil.copytree(sweep / "first" / "checkpoints" / "000000000000", copy)
    commands.refuse(["evaluate", copy], str(copy), "checkpoint")
