"""What methods are called: short, never two alike, as the user says; CSV keeps the recorded one."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from reprl.analysis.load import Run
from reprl.analysis.names import display_names, parse_names
from reprl.analysis.palette import COLOURS, GRAY, PLAIN, styles
from reprl.analysis.report import write_report
from reprl.errors import UserError

PLAIN_CONFIG = {"algo": {"_target_": "PPO"}, "encoder": {"_target_": "nature"}}
OTHER_CONFIG = PLAIN_CONFIG | {"auxiliary": {"_target_": "Drac"}}


def run(method: str, experiment: str | None = None, *, plain: bool = False) -> Run:
    config = PLAIN_CONFIG if plain else OTHER_CONFIG
    record = {"method": method, "experiment": experiment}
    return Run(method, Path(method), method, 1, config, record)


def test_experiments_name_methods_and_the_common_part_is_dropped() -> None:
    runs = [run("ppo-nature", "only_plain"), run("ppo-nature-drac", "only_drac")]
    assert list(display_names(runs).values()) == ["plain", "drac"]


def test_without_experiments_the_recorded_names_are_shortened() -> None:
    runs = [run("ppo-nature", plain=True), run("ppo-nature-drac"), run("ppo-nature-rad_boxes")]
    assert list(display_names(runs).values()) == ["plain", "drac", "rad_boxes"]


def test_a_name_alone_stays_whole() -> None:
    assert display_names([run("ppo-nature-drac")]) == {"ppo-nature-drac": "ppo-nature-drac"}


def test_no_two_methods_are_called_alike() -> None:
    twice = [run("ppo-a · lr=1", "mine"), run("ppo-a · lr=2", "mine"), run("ppo-b", "mine")]
    names = display_names(twice)
    assert len(set(names.values())) == 3
    same = [run("ppo-a", "mine"), run("ppo-b", "mine")]
    assert set(display_names(same).values()) == {"a", "b"}
    unlucky = [run("ppo-x_random"), run("ppo-x_other")]  # would be called as a player is
    assert "random" not in display_names(unlucky).values()


def test_runs_that_disagree_keep_what_they_recorded() -> None:
    runs = [run("ppo-a", "first"), run("ppo-a", "second"), run("sac-b", "third")]
    assert display_names(runs) == {"ppo-a": "ppo-a", "sac-b": "third"}


def test_the_user_has_the_last_word() -> None:
    runs = [run("ppo-nature", "plain", plain=True), run("ppo-nature-drac", "only_drac")]
    for asked in ("only_drac", "ppo-nature-drac"):
        assert display_names(runs, {asked: "DrAC"})["ppo-nature-drac"] == "DrAC"
    assert parse_names(["a:b", "x:y:z"]) == {"a": "b", "x:y": "z"}


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["only_drak:x"], "no method 'only_drak' here.*Did you mean 'only_drac'"),
        (["plain:only_drac"], "two methods would be called 'only_drac'"),
        (["plain:random"], "untrained player"),
        (["plain"], "METHOD:NAME"),
        (["plain:"], "METHOD:NAME"),
        (["plain:a", "plain:b"], "two names"),
    ],
)
def test_wrong_names_are_one_sentence(names: list[str], says: str) -> None:
    runs = [run("ppo-nature", "plain", plain=True), run("ppo-nature-drac", "only_drac")]
    with pytest.raises(UserError, match=says):
        display_names(runs, parse_names(names))


def test_tables_show_names_and_csv_keeps_what_was_recorded(sweep: Path, tmp_path: Path) -> None:
    write_report([sweep], tmp_path, figures=False, names=["nature:Plain PPO"])
    gap = pd.read_csv(tmp_path / "tables" / "gap.csv")
    assert "ppo nature" in set(gap["method"])
    assert "| Plain PPO |" in (tmp_path / "tables" / "gap.md").read_text()
    assert "Plain PPO &" in (tmp_path / "tables" / "gap.tex").read_text()
    assert "against 4.9 of Plain PPO" in (tmp_path / "report.html").read_text()
    names = pd.read_csv(tmp_path / "names.csv").set_index("method")["name"]
    assert names["ppo nature"] == "Plain PPO"
    settings = pd.read_csv(tmp_path / "tables" / "settings.csv")
    assert {"ppo nature", "ppo softplus + boxes"} <= set(settings)


def test_an_unknown_baseline_is_one_sentence(sweep: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="baseline=natur: .*Did you mean 'nature'"):
        write_report([sweep], tmp_path, figures=False, baseline="natur")


def test_a_chosen_baseline_is_what_methods_are_held_against(sweep: Path, tmp_path: Path) -> None:
    runs = Path(shutil.copytree(sweep, tmp_path / "runs"))
    path, _ = write_report([runs], tmp_path / "out", figures=False, baseline="ppo softplus + boxes")
    assert "Nothing beats softplus + boxes" in path.read_text().replace("<wbr>", "")
    overall = pd.read_csv(tmp_path / "out" / "tables" / "overall.csv").set_index("method")
    assert overall.loc["ppo nature", "difference"] < 0


def test_a_colour_belongs_to_a_name_and_can_be_read() -> None:
    alone, among = styles(["drac"]), styles(["a", "b", "drac", "random"])
    assert alone["drac"].light in {s.light for s in among.values()}
    assert styles(["b", "drac", "a"])["drac"] == styles(["a", "b", "drac"])["drac"]
    many = styles([f"m{i}" for i in range(20)])
    assert len({(s.index, s.shape) for s in many.values()}) == 20
    for light, dark in (*COLOURS, PLAIN, GRAY):
        assert min(_contrast(light, paper) for paper in ("#ffffff", "#fbfbf9")) >= 4.5
        assert min(_contrast(dark, paper) for paper in ("#14171a", "#1b1f23")) >= 4.5


def _contrast(a: str, b: str) -> float:
    def light(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(a), light(b)))
    return (high + 0.05) / (low + 0.05)


def test_records_decide_over_folders(tmp_path: Path, sweep: Path) -> None:
    runs = Path(shutil.copytree(sweep, tmp_path / "runs"))
    for path in runs.glob("ppo-nature-*/run.json"):
        record = json.loads(path.read_text()) | {"experiment": "my own idea"}
        path.write_text(json.dumps(record))
    path, _ = write_report([runs], tmp_path / "out", figures=False)
    assert "of my own idea" in path.read_text()
