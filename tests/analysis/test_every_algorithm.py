"""Agents with a memory, with Q-values and with two networks, from training to the report.

Each is trained for some steps, then `attention`, `evaluate twin=true` and `probe` look at it and
the report names it: what a study asks of a player is asked of the real ones here, not of a toy.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.record import collect, uniform
from reprl.analysis.attention.views import look, make_view
from reprl.checkpoint import load
from reprl.cli import main
from tests.helpers import Commands

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


@pytest.mark.parametrize("algo", ["sac", "td3"])
def test_the_mask_of_continuous_actions_is_scored_and_nothing_else_explained(
    algo: str, tmp_path: Path, commands: Commands
) -> None:
    masked, plain = tmp_path / "runs" / f"{algo}_masked", tmp_path / "runs" / algo
    for folder, more in {masked: ["attention=conv"], plain: []}.items():
        train = ["train", *COMMON, f"algo={algo}", *CRITICS, *more]
        assert main([*train, f"run_dir={folder}"]) == 0
    assert main(["attention", str(masked), "variant=green_lines", "steps=32"]) == 0
    scores = finite(masked / "attention" / "scores.csv", ["value", "n_frames"])
    assert set(scores["view"]) == {"mask"}
    assert set(scores["object"]) >= {"ball", "paddle", "bricks", "distractor"}
    for suffix in ("png", "mp4"):
        assert (masked / "attention" / f"green_lines.{suffix}").stat().st_size > 1000
    look = ["attention", str(masked), "steps=32"]
    commands.refuse([*look, "method=gradient"], "method=gradient", "method=mask")
    commands.refuse([*look, "player=random"], "player=random", "discrete actions")
    commands.refuse([*look, "faithfulness=true"], "faithfulness=true", "discrete actions")
    commands.refuse(["attention", str(plain), "steps=32"], "acts with numbers", "has none")


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
