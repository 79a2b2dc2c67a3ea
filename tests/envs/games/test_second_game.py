"""A game the package has never heard of, from training to the report, by commands alone."""

import json
import shutil
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from reprl.analysis.attention.record import scripted
from reprl.cli import main
from reprl.envs import make_vec_env
from reprl.evaluation import campaign, episodes, twin_evaluation
from reprl.evaluation.baselines import players
from tests.helpers import refuses

pytestmark = pytest.mark.slow
OWN = "tests.toys.freeway:FREEWAY"
TINY = [
    *("env.size=36", "env.stack=2", "env.n_envs=2", "env.workers=1", "algo.n_steps=8"),
    *("algo.batch_size=8", "algo.n_epochs=1", "total_steps=32", "threads=1", "progress=off"),
    *("encoder=nature_padded", "attention=conv"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two updates with its games, twins and looks."""
    place = tmp_path_factory.mktemp("freeway") / "run"
    assert main(["train", f"env.game={OWN}", f"run_dir={place}", *TINY]) == 0
    chosen = ["variants=original,green_lines", "progress=off"]
    with pytest.MonkeyPatch.context() as patch:
        # Its games all last 8,000 frames; the first crossings are enough here.
        patch.setattr(campaign, "Arena", partial(episodes.Arena, frame_limit=600))
        players = ["agents=random,scripted,scripted:cars", "episodes=2", "workers=0", "n_envs=4"]
        assert main(["evaluate", str(place), *chosen, *players]) == 0
    assert main(["evaluate", str(place), *chosen, "twin=true", "steps=6", "workers=0"]) == 0
    return place


def test_the_models_and_the_scripted_agents_games_are_stored(run: Path) -> None:
    own = pd.read_csv(run / "evaluation" / "episodes.csv")
    assert own.groupby("variant").size().to_dict() == {"original": 2, "green_lines": 2}
    assert (own["end"] == "frame_limit").all()
    beside = pd.read_csv(run / "baselines" / "evaluation" / "episodes.csv")
    points = beside.groupby(["method", "variant"])["episode_return"].mean()
    assert points["scripted", "original"] > points["random", "original"]
    assert points["scripted", "green_lines"] == points["scripted", "original"]  # sees the truth
    assert len(points) == 6


def test_the_twin_sees_one_game_and_holds_it_to_the_truth(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pd.read_csv(run / "evaluation" / "twin.csv")
    assert rows["variant"].tolist() == ["green_lines"] * 6
    assert (rows["js"] > 0).any()
    assert rows["attention_shift"].notna().all()
    from reprl import checkpoint
    from reprl.envs.games import _own
    from tests.toys import freeway

    model = checkpoint.load(run)
    read = freeway.FREEWAY.objects

    def shifted(ram):  # a drawing that would move the game: the second reading of a step differs
        seen = read(ram)
        seen.score += next(counted)
        return seen

    counted = iter(range(10_000))
    monkeypatch.setattr(
        freeway,
        "FREEWAY",
        freeway.Game(
            cartridge="freeway",
            objects=shifted,
            classes=("chicken", "cars"),
            tracked="chicken",
        ),
    )
    _own.cache_clear()
    try:
        with refuses("'green_lines'"):
            twin_evaluation(model, "green_lines", 2, game=OWN, stack=2, size=36)
    finally:
        _own.cache_clear()


def test_attention_is_scored_against_its_objects(run: Path, capsys) -> None:
    looks = ["variant=green_lines", "steps=48", "player=scripted"]
    assert main(["attention", str(run), *looks]) == 0
    out = capsys.readouterr().out
    assert "ball" not in out
    assert "chicken" in out
    table = pd.read_csv(run / "attention" / "scores.csv")
    classes = ["chicken", "cars", "distractor", "background"]
    assert list(dict.fromkeys(table["object"])) == classes
    energy = table[table["metric"] == "energy"].set_index("object")
    # Counted apart: 7 x 8 raw pixels touch 2 to 3 of 36 in both directions.
    assert 0.8 * 4 / 36**2 < energy.loc["chicken", "chance"] < 1.2 * 9 / 36**2
    assert (run / "attention" / "green_lines.png").is_file()
    about = json.loads((run / "attention" / "labels.json").read_text())["about"]
    assert about["green_lines"]["player"] == "scripted"


def test_the_report_is_about_this_game(run: Path, tmp_path: Path) -> None:
    assert main(["report", str(run), f"out={tmp_path / 'report'}"]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert OWN in page
    assert "scripted blind_to=cars" in page


def test_a_game_without_truth_has_no_scripted_agent() -> None:
    for refused in (
        lambda: players(["scripted"], "boxing"),
        lambda: scripted(0, "boxing"),
        lambda: make_vec_env(n_envs=1, game="boxing").objects(),
    ):
        with refuses("breakout", "'boxing'"):
            refused()


def test_a_game_that_only_a_folder_names_is_not_imported(run: Path, tmp_path: Path, capsys) -> None:
    """A stranger's run must not bring code along under the name of a game."""
    theirs = shutil.copytree(run, tmp_path / "theirs")
    trap = tmp_path / "trapped_game.py"
    trap.write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')")
    config = (theirs / "config.yaml").read_text()
    (theirs / "config.yaml").write_text(config.replace(OWN, "trapped_game:GAME"))
    for command in (["evaluate", str(theirs)], ["attention", str(theirs)]):
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(tmp_path))
            assert main(command) == 2
        message = capsys.readouterr().err
        assert "trapped_game:GAME" in message
        assert "trust=trapped_game" in message
    assert main(["report", str(theirs), f"out={tmp_path / 'report'}"]) == 0
    assert not (tmp_path / "sprung").exists()
