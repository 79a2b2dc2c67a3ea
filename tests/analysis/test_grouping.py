"""Which runs belong together: games stay apart, settings make names, copies are one seed."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from reprl.analysis.charts import learning
from reprl.analysis.gap import generalization_gap
from reprl.analysis.grouping import method_settings
from reprl.analysis.load import collect
from reprl.analysis.measured import attention_table, faithfulness_table, twin_table
from reprl.cli import main
from reprl.naming import is_plain, method_name
from reprl.runs.places import write_game


def configure(run: Path, **changes: object) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    for key, value in changes.items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    (run / "config.yaml").write_text(yaml.safe_dump(config))


def test_another_game_is_left_out_with_its_random_player(runs: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(runs, tmp_path / "pong"))
    for run in other.glob("ppo*"):
        configure(run, env={"game": "pong"})
        shutil.move(run, other / f"pong-{run.name}")
    for path in other.glob("*/evaluation/episodes.csv"):  # scores of another scale
        table = pd.read_csv(path)
        table.assign(episode_return=3 * table["episode_return"] - 20).to_csv(path, index=False)
    shutil.rmtree(next(other.glob("pong-*-1")))  # fewer runs, so Breakout is reported
    alone = collect([runs])
    got = collect([other, runs])
    assert any("only those of breakout are reported" in w for w in got.warnings)
    assert {r.name for r in got.runs} == {r.name for r in alone.runs}
    gaps = [generalization_gap(r.episodes).sort_values(["method", "variant"]) for r in (got, alone)]
    assert gaps[0].reset_index(drop=True).equals(gaps[1].reset_index(drop=True))


def test_of_three_games_the_evaluated_one_is_reported(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "games"
    for game in ("pong", "freeway", "breakout"):
        for seed in (1, 2):
            run = Path(shutil.copytree(runs / f"ppo-nature-{seed}", place / f"{game}-{seed}"))
            configure(run, env={"game": game})
            if (game, seed) != ("breakout", 1):
                shutil.rmtree(run / "evaluation")
    assert main(["report", str(place), f"out={tmp_path / 'report'}", "figures=false"]) == 0
    said = capsys.readouterr().out
    played = len(pd.read_csv(place / "breakout-1" / "evaluation" / "episodes.csv"))
    assert f"{played} games" in said


def test_a_model_without_a_run_stays_with_its_own_game(runs: Path, tmp_path: Path) -> None:
    one = Path(shutil.copytree(runs / "ppo-nature-1", tmp_path / "stock"))
    for name in ("config.yaml", "run.json"):
        (one / name).unlink()
    alone = {run.name for run in collect([runs]).runs}
    write_game(one, "freeway")
    got = collect([one])
    assert got.game == "freeway"
    assert "random" not in set(got.episodes["method"])  # what ships is Breakout's
    got = collect([one, runs])
    assert (got.game, {run.name for run in got.runs}) == ("breakout", alone)
    assert any("only those of breakout are reported" in w for w in got.warnings)
    assert len(got.episodes) == len(collect([runs]).episodes)


def test_runs_that_differ_in_a_fifth_setting_are_not_one_method(runs: Path) -> None:
    four = {"learning_rate": 1e-3, "n_steps": 64, "batch_size": 64, "gamma": 0.9}
    configure(runs / "ppo-nature-1", algo=four)
    configure(runs / "ppo-nature-2", env={"n_envs": 32})
    got = collect([runs])
    names = [r.method for r in got.runs if r.method.startswith("ppo nature")]
    assert len(set(names)) == 3


def test_a_folder_called_random_is_a_run_and_the_random_player_stays(runs: Path) -> None:
    shutil.move(runs / "ppo-nature-1", runs / "random")
    got = collect([runs])
    assert got.warnings == []
    assert set(got.episodes.loc[got.episodes["train_seed"] < 0, "method"]) >= {"random"}
    gaps = generalization_gap(got.episodes)
    assert set(gaps.loc[gaps["method"] == "ppo nature", "n_seeds"]) == {3}


def test_copies_of_runs_are_no_further_seeds_anywhere(runs: Path) -> None:
    for run in list(runs.glob("ppo*")):
        shutil.copytree(run, runs / f"copy-of-{run.name}")
    got = collect([runs])
    for table in (
        twin_table(got.twin),
        attention_table(got.attention),
        faithfulness_table(got.faithfulness),
    ):
        assert set(table.frame["n_seeds"]) == {3}
    assert {point[4] for curve in learning(got) for point in curve["points"]} == {3}


def test_pictures_of_a_users_own_variant_keep_its_name(runs: Path) -> None:
    place = runs / "ppo-softplus-boxes-1" / "attention"
    for suffix in (".png", ".mp4", "_over_training.svg"):
        shutil.move(place / f"green_lines{suffix}", place / f"my.games_Fog{suffix}")
    about = {"my.games_Fog": {"variant": "my.games:Fog"}}
    labels = {"labels": {"my.games_Fog": ["stuck"]}, "about": about}
    (place / "labels.json").write_text(json.dumps(labels))
    run = next(r for r in collect([runs]).runs if r.name == "ppo-softplus-boxes-1")
    assert "my.games:Fog" in run.images
    assert list(run.trends) == list(run.videos) == ["my.games:Fog"]
    assert run.labels == {"my.games:Fog": ["stuck"]}


def test_a_seed_trained_longer_is_another_method(runs: Path) -> None:
    longer = Path(shutil.copytree(runs / "ppo-nature-1", runs / "longer"))
    configure(longer, total_steps=10**6)
    names = {r.method for r in collect([runs]).runs if r.method.startswith("ppo nature")}
    assert "ppo nature · total_steps=1000000" in names
    assert len(names) == 2


def test_seeds_of_different_length_stay_one_method_with_a_note(runs: Path) -> None:
    configure(runs / "ppo-nature-1", total_steps=10**6)
    got = collect([runs])
    assert len({r.method for r in got.runs if r.method.startswith("ppo nature")}) == 1
    assert any("trained for different numbers of steps" in w for w in got.warnings)


def test_a_random_player_between_games_is_nobodys(runs: Path) -> None:
    configure(Path(shutil.copytree(runs / "ppo-nature-1", runs / "other")), env={"game": "pong"})
    got = collect([runs])
    assert any("runs of different games are around it" in w for w in got.warnings)
    assert "random" not in set(got.episodes["method"])


def test_a_run_from_before_a_key_is_the_run_with_its_default() -> None:
    old = {"algo": {"_target_": "reprl.PPO"}, "encoder": {"_target_": "reprl.encoders.Nature"}}
    new = {**old, "encoder": {**old["encoder"], "input": "frames", "contrast": 0, "threshold": 0.0}}
    other = {**new, "encoder": {**new["encoder"], "input": "differences"}}
    assert method_settings(old) == method_settings(new) != method_settings(other)
    assert [method_name(c) for c in (old, new, other)] == [
        "ppo nature",
        "ppo nature",
        "ppo nature_differences",
    ]
    assert [is_plain(c) for c in (old, new, other)] == [True, True, False]


def test_what_a_run_shows_while_it_trains_is_no_other_method():
    shown = {"media": 60, "profile": False, "progress": "auto", "total_steps": 100}
    silent = {"media": 0, "profile": True, "progress": "off", "total_steps": 100}
    assert method_settings(shown) == method_settings(silent) == {"total_steps": 100}
