"""Agents with a memory, with Q-values and with two networks, from training to the report.

Each is trained for some steps, then `attention`, `evaluate twin=true` and `probe` look at it and
the report names it: what a study asks of a player is asked of the real ones here, not of a toy.
Those with continuous actions are filmed, drawn and probed, and refused where probabilities count.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
import pandas as pd
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.record import collect, uniform
from reprl.analysis.attention.views import look, make_view
from reprl.analysis.readability import features_layer
from reprl.analysis.twins.layers import layers
from reprl.checkpoint import load
from reprl.cli import main
from tests.helpers import Commands, refuses

STEPS = 64
COMMON = [
    *("threads=1", "device=cpu", "progress=off", "media=0", "env.n_envs=2", "env.max_frames=400"),
    *("env.size=36", "encoder.features_dim=16", f"total_steps={STEPS}", "log.every=32"),
    *(f"checkpoint.every={STEPS}", "eval.every=0"),
]
ROLLOUT = ["env.stack=2", "algo.n_steps=16", "algo.batch_size=16"]
REPLAY = ["env.stack=2", "algo.buffer_size=200", "algo.learning_starts=16", "algo.batch_size=8"]
MEMORY = ["env.stack=1", "algo.lstm_size=16", "algo.n_steps=16", "algo.batch_size=16"]
KINDS = {
    "recurrent_ppo": [*MEMORY, "algo.n_epochs=1"],
    "recurrent_ppo masked": [*MEMORY, "algo.n_epochs=1", "algo.memory=gru", "attention=conv"],
    "dqn": REPLAY,
    "qrdqn": REPLAY,
    "ppg": [
        *ROLLOUT,
        "algo.n_policy_phases=2",
        "algo.auxiliary_epochs=1",
        "algo.auxiliary_batch_size=16",
    ],
    "idaac": [*ROLLOUT, "algo.value_epochs=1"],
}
pytestmark = pytest.mark.slow


CRITICS = ["env.continuous=true", *REPLAY, "algo.gradient_steps=1"]
STICKS = {
    "sac shared": ["algo.share_encoder=true"],
    "sac masked": ["attention=conv_21", "attention.resolution=9"],
    "td3": [],
}


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few updates, which the three commands have looked at."""
    kind = str(request.param)
    folder = tmp_path_factory.mktemp("every") / "runs" / kind.replace(" ", "_")
    algo = f"algo={kind.split()[0]}"
    assert main(["train", *COMMON, algo, *KINDS[kind], f"run_dir={folder}"]) == 0
    place, seen = str(folder), "variants=original,green_lines"
    assert main(["attention", place, "variant=green_lines", "steps=32"]) == 0
    assert main(["evaluate", place, "twin=true", "film=0", seen, "steps=16"]) == 0
    assert main(["probe", place, "frames=200", "games=3", "every=1", seen]) == 0
    return folder


def finite(file: Path, columns: Sequence[str], step: int = STEPS) -> pd.DataFrame:
    """A measured table of this step, whose columns are numbers throughout."""
    table = pd.read_csv(file)
    assert set(table["step"]) == {step}, file.name
    assert "green_lines" in set(table["variant"]), file.name
    values = table[list(columns)].to_numpy(float)
    assert np.isfinite(values).all(), table[~np.isfinite(values).all(axis=1)]
    return table


def test_the_three_commands_write_numbers_and_the_report_names_it(run: Path) -> None:
    masked = "masked" in run.name
    scores = finite(run / "attention" / "scores.csv", ["value", "n_frames"])
    assert set(scores["view"]) == {"mask" if masked else "gradient"}
    assert set(scores["metric"]) >= {"energy", "pointing", "auc"}
    for suffix in ("png", "mp4"):
        assert (run / "attention" / f"green_lines.{suffix}").stat().st_size > 1000
    measures = ["js", "flip", "value_error", "feature_distance"]
    twins = finite(run / "evaluation" / "twin.csv", [*measures, *["attention_shift"] * masked])
    assert twins["feature_distance"].max() > 0
    assert twins["js"].between(0, np.log(2)).all()
    probes = finite(run / "evaluation" / "probes.csv", ["n_fit", "n_read"])
    agents = probes[probes["source"] == "agent"]
    assert set(agents["variant"]) == {"original", "green_lines"}
    assert agents[["r2", "balanced_accuracy"]].notna().any(axis=1).all()
    out = run.parent.parent / "report"
    assert main(["report", str(run.parent), f"out={out}"]) == 0
    method = str(scores["method"].iloc[0])
    assert run.name.split("_")[0] in method
    assert method in (out / "report.html").read_text()


@pytest.fixture(scope="module", params=STICKS)
def stick(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with continuous actions, watched and filmed at its validation."""
    kind = str(request.param)
    folder = tmp_path_factory.mktemp("sticks") / "runs" / kind.replace(" ", "_")
    words = [*COMMON, *CRITICS, *STICKS[kind], f"algo={kind.split()[0]}"]
    seen = [f"eval.every={STEPS}", "eval.episodes=1", "eval.variants=[original]", "media=8"]
    assert main(["train", *words, *seen, f"run_dir={folder}"]) == 0
    assert main(["train", *words, f"run_dir={folder.with_name('unseen')}"]) == 0
    return folder


def test_continuous_actions_are_watched_and_filmed_and_learn_the_same(stick: Path) -> None:
    step = f"checkpoints/{STEPS:012d}"
    for file in ("parameters.safetensors", "optimizer.safetensors", "state.safetensors"):
        unseen = stick.with_name("unseen") / step / file
        assert (stick / step / file).read_bytes() == unseen.read_bytes(), file
    row, masked = pd.read_csv(stick / "metrics.csv").iloc[-1], "masked" in stick.name
    found = {f"mask/{name}" for name in ("pointing/original", "energy/original", "chance")}
    assert found <= set(row.index) if masked else not found & set(row.index)
    if masked:
        assert (row[[*found]] >= 0).all()
    events = EventAccumulator(str(stick / "tensorboard"), size_guidance={"images": 0})
    events.Reload()
    shown = events.Tags()
    assert {"video/original", "attention/original"} <= set(shown["images"])
    assert ("mask/values/original" in shown["histograms"]) == masked


def test_where_continuous_actions_look_is_scored_filmed_and_probed(
    stick: Path, commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    masked, place = "masked" in stick.name, str(stick)
    view = "mask" if masked else "gradient"
    assert main(["attention", place, "variant=green_lines", "steps=32"]) == 0
    said = capsys.readouterr()
    assert ("gradient of the critic's value" in said.out) != masked
    assert ("first critic's values" in said.err) != masked
    for more in (["method=perturbation"], ["player=random"]):
        assert main(["attention", place, "variant=green_lines", "steps=32", *more]) == 0
    scores = finite(stick / "attention" / "scores.csv", ["value", "n_frames"])
    asked = scores[["view", "player"]].drop_duplicates().to_numpy().tolist()
    assert sorted(asked) == sorted([[view, "agent"], ["perturbation", "agent"], [view, "random"]])
    assert set(scores["object"]) >= {"ball", "paddle", "bricks", "distractor"}
    for suffix in ("png", "mp4"):
        assert (stick / "attention" / f"green_lines.{suffix}").stat().st_size > 1000

    output = stick.with_name(f"{stick.name}.mp4")
    for more in ([], ["deterministic=true"]):
        shown = ["attention=auto", "seconds=0.4", f"output={output}", *more]
        assert main(["video", place, *shown]) == 0
        with imageio.get_reader(output) as film:
            assert film.count_frames() == 6

    seen = "variants=original,green_lines"
    assert main(["probe", place, "frames=200", "games=3", "every=1", seen, "player=random"]) == 0
    probes = finite(stick / "evaluation" / "probes.csv", ["n_fit", "n_read"])
    shared = "shared" in stick.name
    owner = "critic" if shared else "actor"
    assert features_layer(probes) == f"{owner}.features_extractor.linear.0"
    assert main(["embed", place, "frames=40", "games=4", "every=2", seen]) == 0
    about = json.loads((stick / "evaluation" / "embedding" / "embedding.json").read_text())
    assert np.abs(about["views"][0]["values"]).max() > 0

    look = ["attention", place, "steps=32"]
    commands.refuse([*look, "player=scripted"], "player=scripted", "discrete actions")
    commands.refuse([*look, "faithfulness=true"], "faithfulness=true", "discrete actions")
    with refuses("continuous actions", "discrete"):
        layers(stick, "green_lines")
    commands.refuse(["evaluate", place, "twin=true", seen], "continuous actions")


def pasts(network: Any, pictures: np.ndarray) -> list[tuple[Any, ...]]:
    """What a game's first picture, and what all the others in a row, leave in the memory."""
    short = network.outputs(pictures[:1], network.initial_state(1), np.ones(1, bool))[1]
    long, starts = network.initial_state(1), np.ones(1, bool)
    for picture in pictures:
        long, starts = network.outputs(picture[None], long, starts)[1], np.zeros(1, bool)
    return [short, long]


def test_a_memory_is_carried_and_nothing_else_has_one(run: Path) -> None:
    model = load(run)
    network = network_of(model)
    remembers = "recurrent" in run.name
    view = make_view(network, "gradient")
    seen = {"size": 36, "stack": 1 if remembers else 2}
    recording = collect(
        view, "original", steps=48, n_envs=2, seed=1, player=uniform(1), settings=seen
    )
    assert bool(recording.state) == remembers
    if not remembers:
        return
    carried = recording.state[:1] if "masked" in run.name else recording.state  # a GRU has no cells
    assert all(part.any() for part in carried)
    picture = recording.observations[-1:]
    states = pasts(network, recording.observations[::2])
    first, second = (network.outputs(picture, state, np.zeros(1, bool))[0] for state in states)
    assert np.abs(first.probs - second.probs).max() > 0
    maps = [look(view, picture, state) for state in states]
    assert (maps[0] - maps[1]).abs().max() > 0
    # A game's first look knows no past: whatever was carried so far is forgotten there.
    begun, again = (network.outputs(picture, state, np.ones(1, bool))[0] for state in states)
    np.testing.assert_array_equal(begun.probs, again.probs)
