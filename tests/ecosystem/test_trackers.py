"""wandb and TensorBoard on real runs: what they hold, and that they change nothing.

wandb is offline: its files are read, and `wandb agent` is stood in for by its own functions that
make the command, with the environment it sets. What a server would answer is not tested.
"""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from reprl.cli import main
from reprl.runs.folder import open_run
from reprl.runs.logbook import identity_of, log_results
from reprl.runs.media import LoggedTable
from reprl.runs.writers import stock_tags
from tests.helpers import refuses
from tests.runs import TINY, same_runs, train
from tests.wandb_files import artifacts, history, whole

pytestmark = pytest.mark.slow  # trains

MASK = ["attention=conv", "total_steps=64", "eval.every=32"]
GAMES = ["variants=original", "episodes=1", "n_envs=1", "workers=0", "progress=off", "agents=none"]


def board(run: Path) -> EventAccumulator:
    events = EventAccumulator(
        str(run / "tensorboard"), size_guidance={"images": 0, "tensors": 0, "histograms": 0}
    )
    events.Reload()
    return events


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every logger and a mask, where wandb's variables say where and as what."""
    place = tmp_path_factory.mktemp("trackers")
    words = {"WANDB_NAME": "my name", "WANDB_RUN_GROUP": "my group", "WANDB_TAGS": "mine,too"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (words | {"WANDB_DIR": str(place / "elsewhere")}).items():
            patch.setenv(name, value)
        patch.delenv("WANDB_MODE", raising=False)
        patch.delenv("WANDB_RUN_ID", raising=False)
        (place / "elsewhere").mkdir()
        assert train(place / "run", *MASK, "media=12", "wandb=offline") == 0
    return place / "run"


def offline(place: Path) -> list[list[Any]]:
    """The records of every offline run in a folder, the oldest first."""
    return [whole(f) for f in sorted(place.glob("wandb/offline-run-*/run-*.wandb"))]


def test_loggers_and_pictures_change_nothing(run: Path, tmp_path: Path) -> None:
    assert train(tmp_path / "bare", *MASK, "media=0") == 0
    assert same_runs(run, tmp_path / "bare")
    assert open_run(run).config_hash() == open_run(tmp_path / "bare").config_hash()


def test_tensorboard_holds_settings_sb3s_tags_video_pictures_and_the_masks_histogram(
    run: Path,
) -> None:
    events = board(run)
    tags = events.Tags()
    assert {"validation/score", "train/value_loss", "train/explained_variance"} <= set(
        tags["scalars"]
    )
    ours = [(e.step, e.value) for e in events.Scalars("time/elapsed")]
    assert [(e.step, e.value) for e in events.Scalars("time/time_elapsed")] == ours
    assert [e.value for e in events.Scalars("time/total_timesteps")] == [s for s, _ in ours]
    assert {"time/fps", "time/total_timesteps"} <= set(tags["scalars"])
    films = events.Images("video/original")
    assert [film.step for film in films] == [32, 64]
    with Image.open(io.BytesIO(films[0].encoded_image_string)) as film:
        assert film.format == "GIF"
        assert film.size == (320, 210)
        assert film.n_frames > 3  # frames that do not differ are one
    [sheet, _] = events.Images("attention/original")
    with Image.open(io.BytesIO(sheet.encoded_image_string)) as picture:
        assert picture.width > 600
    [values, _] = events.Histograms("mask/values/original")
    assert 0 <= values.histogram_value.min <= values.histogram_value.max <= 1
    assert values.histogram_value.num == 12 * 9 * 9 or values.histogram_value.num > 12
    raw = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    settings = plugin_data_pb2.HParamsPluginData.FromString(raw).session_start_info.hparams
    assert settings["algo.gamma"].number_value == 0.99
    assert settings["attention"].string_value == "conv"


def test_a_row_goes_by_sb3s_names_too() -> None:
    row = {"rollout/score": 3.0, "rollout/length": 90.0, "time/elapsed": 2.0, "train/loss": 1.0}
    assert stock_tags(128, row) == {
        "rollout/ep_rew_mean": 3.0,
        "rollout/ep_len_mean": 90.0,
        "time/time_elapsed": 2.0,
        "time/total_timesteps": 128.0,
    }
    assert stock_tags(128, {"evaluation/score/original": 3.0}) == {}


def test_wandb_holds_media_a_table_and_what_its_variables_say(run: Path) -> None:
    [found] = offline(run.parent / "elsewhere")
    first = next(r.run for r in found if r.HasField("run"))
    assert (first.display_name, first.run_group) == ("my name", "my group")
    assert {"mine", "too", "conv"} <= set(first.tags)
    logged = history(found)
    assert logged["video/original"]["_type"] == "video-file"
    assert logged["attention/original"]["_type"] == "image-file"
    assert logged["mask/values/original"]["_type"] == "histogram"
    assert logged["validation/gap"]["_type"] == "table-file"
    files = Path(next((run.parent / "elsewhere").glob("wandb/offline-run-*"))) / "files"
    table = json.loads((files / logged["validation/gap"]["path"]).read_text())
    assert table["columns"] == ["variant", "games", "score", "gap"]
    assert [row[0] for row in table["data"]] == ["original"]
    assert (files / logged["video/original"]["path"]).read_bytes()[:3] == b"GIF"
    assert any(name.startswith("checkpoint-") for name in artifacts(found))
    assert open_run(run).record()["wandb"]["id"] == first.run_id


def test_evaluate_attention_and_report_log_to_the_run_they_belong_to(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    assert main(["evaluate", str(run), *GAMES, "wandb=offline"]) == 0
    assert main(["attention", str(run), "steps=16", "wandb=offline"]) == 0
    report = tmp_path / "report"
    assert main(["report", str(run), f"out={report}", "figures=false", "wandb=offline"]) == 0
    later = offline(tmp_path)
    assert len(later) == 3
    identity = open_run(run).record()["wandb"]["id"]
    assert {next(r.run.run_id for r in found if r.HasField("run")) for found in later} == {identity}
    seen = {key: value for found in later for key, value in history(found).items()}
    assert seen["evaluation/gap"]["_type"] == "table-file"
    assert "evaluation/score/original" in seen
    assert seen["attention/original"]["_type"] == "image-file"
    kept = {name: files for found in later for name, files in artifacts(found).items()}
    assert "report.html" in kept[f"report-{identity}"]
    tags = board(run).Tags()
    assert "evaluation/score/original" in tags["scalars"]
    assert "evaluation/gap/text_summary" in tags["tensors"]
    assert len(board(run).Images("attention/original")) == 3


def test_a_command_calls_nobody_unless_it_is_told_to(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    log_results(open_run(run), 64, {"a": 1.0}, {"b": LoggedTable(["x"], [[1]])}, kind="evaluation")
    assert not list(tmp_path.iterdir())
    with refuses("run.json", "wandb"):
        identity_of({"wandb": {"id": "../../else"}}, "a run")


def test_pictures_that_cannot_be_made_cost_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from reprl.analysis.attention import glimpse

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no picture today")

    monkeypatch.setattr(glimpse, "collect", fail)
    assert train(tmp_path / "run", "total_steps=32", "eval.every=32", "media=12") == 0
    assert "no pictures of this step: RuntimeError: no picture today" in capsys.readouterr().err


def test_the_recipe_of_a_wandb_agent(tmp_path: Path) -> None:
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

    page = Path("docs/logging.md").read_text()
    [recipe] = re.findall(r"```yaml\n(# sweep.yaml.*?)```", page, re.DOTALL)
    sweep = yaml.safe_load(recipe)
    first = {name: {"value": spec["values"][-1]} for name, spec in sweep["parameters"].items()}
    pieces = create_sweep_command_args({"args": first})
    words: list[str] = []
    for word in create_sweep_command(sweep["command"]):
        named = re.fullmatch(r"\$\{(\w+)\}", word)
        if named and named[1] in pieces:
            words += pieces[named[1]]
        else:
            words.append(sweep["program"] if named else word)
    assert words[:2] == ["reprl", "train"]
    small = [*TINY, "total_steps=32", "eval.every=0", f"run_dir={tmp_path / 'run'}"]
    environment = os.environ | {
        "WANDB_MODE": "offline",
        "WANDB_RUN_ID": "theagents1",
        "WANDB_SWEEP_ID": "asweep01",
        "WANDB_DIR": str(tmp_path),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", *words, *small]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [file] = tmp_path.glob("wandb/offline-run-*/run-theagents1.wandb")
    found = next(r.run for r in whole(file) if r.HasField("run"))
    assert (found.run_id, found.sweep_id) == ("theagents1", "asweep01")
    config = {u.key: json.loads(u.value_json) for u in found.config.update}
    assert config["algo"]["learning_rate"] == 5e-4
    assert config["choices"]["augmentation"] == "texture"
