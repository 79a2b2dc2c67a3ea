"""`reprl attention`: files in the run folder, merging, games without ground truth, wrong input."""

import json
import shutil

import pandas as pd
import pytest
from PIL import Image

from reprl.analysis.load import collect as read_results
from reprl.cli import main
from tests.runs import make_run

pytestmark = pytest.mark.slow  # plays games

CHEAP = ["steps=24"]


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "masked"
    return make_run(place, (0, 8), encoder="nature_padded", attention="conv")


@pytest.fixture
def folder(masked, tmp_path):
    return shutil.copytree(masked, tmp_path / "masked")


def run(capsys, *arguments):
    code = main(["attention", *map(str, arguments), *CHEAP])
    return code, capsys.readouterr()


def test_a_run_gets_pictures_scores_and_labels_that_the_report_reads(folder, capsys):
    code, out = run(capsys, folder, "variant=green_lines", "player=scripted")
    assert code == 0
    assert "distractor" in out.out
    place = folder / "attention"
    assert Image.open(place / "green_lines.png").width > 1000
    assert (place / "green_lines.mp4").stat().st_size > 5000
    assert not list(place.glob("*.svg"))  # one checkpoint is no history
    results = read_results([folder])
    assert list(results.runs[0].images) == ["green_lines"]
    assert "green_lines" in results.runs[0].labels
    table = results.attention
    either = "ball or paddle"
    assert set(table["object"]) == {"ball", "paddle", "bricks", "distractor", "background", either}
    energy = table[table["metric"] == "energy"].set_index("object")
    parts = energy.loc[["ball", "paddle"], "value"]
    assert parts.max() < energy.loc[either, "value"] <= parts.sum() + 1e-6
    assert {"energy", "pointing", "auc"} <= set(table["metric"])
    assert set(table["step"].astype(int)) == {8}
    assert not [w for w in results.warnings if "scores.csv" in w]


def test_every_checkpoint_and_then_another_player_and_view(folder, capsys):
    code, _ = run(capsys, folder, "over_training=true")
    assert code == 0
    path = folder / "attention" / "scores.csv"
    first = pd.read_csv(path)
    assert sorted(set(first["step"])) == [0, 8]
    assert (folder / "attention" / "original_over_training.svg").is_file()
    sizes = []
    for _ in range(2):  # in other states; the same in the same way is replaced
        run(capsys, folder, "player=random")
        sizes.append(len(pd.read_csv(path)))
    assert sizes[0] == sizes[1] > len(first)
    run(capsys, folder, "method=gradient")  # the newest again, in another way
    again = pd.read_csv(path)
    assert set(again.loc[again["view"] == "gradient", "step"]) == {8}
    assert set(again.loc[again["player"] == "random", "step"]) == {8}
    kept = again[(again["view"] == "mask") & (again["player"] == "agent")]
    pd.testing.assert_frame_equal(kept.reset_index(drop=True), first)
    picture = (folder / "attention" / "original_over_training.svg").read_text()
    assert "<!-- mask -->" in picture
    assert "gradient" not in picture
    labels = json.loads((folder / "attention" / "labels.json").read_text())
    assert labels["labels"] == {}  # saliency is no mask: nothing to have collapsed
    assert labels["about"]["original"]["view"] == "gradient"


def test_maps_of_an_older_checkpoint_are_not_called_the_newest(folder, capsys):
    newest = max((folder / "checkpoints").iterdir())
    (newest / "state.json").write_text("{}")
    code, out = run(capsys, folder)
    assert code == 0
    assert "at step 0, mask" in out.out
    assert set(pd.read_csv(folder / "attention" / "scores.csv")["step"]) == {0}
    about = json.loads((folder / "attention" / "labels.json").read_text())["about"]
    assert (about["original"]["step"], about["original"]["variant"]) == (0, "original")


def test_faithfulness_is_written_and_summed_up(folder, capsys):
    code, out = run(capsys, folder, "faithfulness=true", "games=2")
    assert code == 0
    assert "similarity of maps" in out.out
    table = pd.read_csv(folder / "attention" / "faithfulness.csv")
    assert set(table["test"]) == {"deletion", "insertion", "return", "weights randomised"}
    assert table["value"].notna().all()


def test_a_damaged_table_of_before_is_no_obstacle(folder, capsys):
    (folder / "attention").mkdir()
    path = folder / "attention" / "scores.csv"
    path.write_text("")
    (folder / "attention" / "labels.json").write_text("{")
    code, _ = run(capsys, folder)
    assert code == 0
    first = pd.read_csv(path)
    assert len(first) > 5
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], '"' + lines[1], *lines[2:]]) + "\n")  # a stray quote
    run(capsys, folder, "method=gradient")
    again = pd.read_csv(path)
    kept = again[again["view"] == "mask"].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, first.iloc[1:].reset_index(drop=True))


def test_a_game_without_ground_truth_is_drawn_and_not_scored(tmp_path, capsys):
    path = make_run(tmp_path / "boxing", **{"env.game": "boxing"})
    code, out = run(capsys, path)
    assert code == 0
    assert "not scored" in out.out
    assert (path / "attention" / "original.png").is_file()
    assert not (path / "attention" / "scores.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["method=gradcan"], ["'gradcam'"]),
        (["variant=green_line"], ["'green_lines'"]),
        (["player=script"], ["'scripted'"]),
        (["checkpoint=77"], ["step 77", "8"]),
        (["over_training=true", "checkpoint=8"], ["checkpoint="]),
        (["stepz=3"], ["'stepz'", "'steps'"]),
    ],
)
def test_wrong_input_is_one_sentence(masked, commands, arguments, names):
    commands.refuse(["attention", masked, *arguments], *names)


def test_a_folder_without_runs(tmp_path, commands):
    commands.refuse(["attention", tmp_path], "no runs", str(tmp_path))
