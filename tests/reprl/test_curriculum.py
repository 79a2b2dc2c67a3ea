"""Curricula: which variant is played when, exactly resumed; forgetting and forward transfer."""

from __future__ import annotations

import shutil
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from reprl import checkpoint
from reprl.analysis.curricula import curriculum_table, transfer
from reprl.analysis.random_play import measured
from reprl.cli import main
from reprl.config import schema
from reprl.envs import make_vec_env
from reprl.naming import method_name
from reprl.runs.curriculum import Curriculum
from reprl.runs.folder import open_run
from tests.runs import same_runs, train

STAGES = "env.variant=[original,noise,green_lines]"


class Model:
    """As much of an agent as a curriculum asks for."""

    def __init__(self) -> None:
        self.env = make_vec_env(n_envs=2, max_frames=400)
        self.num_timesteps = 0
        self.ep_info_buffer: deque[dict[str, float]] = deque(maxlen=4)

    def playing(self) -> list[str]:
        return [v.name for v in self.env.get_attr("own")]


def stages_of(kind: str, stage: str, steps: list[int], seed: int = 0) -> list[int]:
    config = schema.load([STAGES, f"env.curriculum={kind}", f"env.stage={stage}", f"seed={seed}"])
    model: Any = SimpleNamespace(
        num_timesteps=0,
        ep_info_buffer=None,
        env=SimpleNamespace(set_attr=lambda *_: None, variants=[None]),
    )
    curriculum = Curriculum.of(config, 0, None)
    assert curriculum is not None
    places = []
    for step in steps:
        model.num_timesteps = step
        curriculum.advance(model)
        places.append(curriculum.place)
    return places


def test_when_a_stage_begins() -> None:
    steps = [0, 99, 100, 199, 200, 300, 900]
    assert stages_of("sequence", "100", steps) == [0, 0, 1, 1, 2, 2, 2]
    assert stages_of("schedule", "[150,250]", steps) == [0, 0, 0, 1, 1, 2, 2]
    drawn = stages_of("random", "100", list(range(0, 4000, 50)))
    assert set(drawn) == {0, 1, 2}
    assert drawn[::2] == drawn[1::2]  # one draw a stage
    assert drawn == stages_of("random", "100", list(range(0, 4000, 50)))
    assert drawn != stages_of("random", "100", list(range(0, 4000, 50)), seed=1)


def test_success_and_the_games_of_an_environment() -> None:
    model: Any = Model()
    config = schema.load([STAGES, "env.curriculum=success", "env.stage=10"])
    curriculum = Curriculum.of(config, 0, None)
    assert curriculum is not None
    curriculum.apply(model)
    model.env.reset()
    model.ep_info_buffer.extend({"r": 20.0} for _ in range(3))
    assert not curriculum.advance(model)  # too few games
    model.ep_info_buffer.append({"r": -40.0})
    assert not curriculum.advance(model)  # a mean of 5
    model.ep_info_buffer.append({"r": 60.0})  # of 15
    assert curriculum.advance(model)
    assert not model.ep_info_buffer
    assert model.playing() == ["noise", "noise"]
    assert [v.name for v in model.env.get_attr("variant")] == ["original"] * 2  # not yet over
    model.env.restart(0)
    assert [v.name for v in model.env.get_attr("variant")] == ["noise", "original"]
    again = Curriculum(config, 500, curriculum.state())
    assert (again.stage, again.origin) == (1, 0)


def test_forgetting_and_forward_transfer_by_hand() -> None:
    frame = pd.DataFrame(
        {
            "curriculum/variant": [0, 0, 1, 1, 2],
            "validation/original": [2.0, 9.0, 8.0, 7.0, 4.0],
            "validation/noise": [1.0, 3.0, 5.0, 6.0, None],
            "validation/score": [0.0] * 5,
        }
    )
    rows = {r["variant"]: r for r in transfer(frame, ["original", "noise", "blur"], "breakout")}
    assert set(rows) == {"original", "noise"}
    assert (rows["original"]["learned"], rows["original"]["forgetting"]) == (9.0, 5.0)
    known = measured()
    clean = known[(known["game"] == "breakout") & (known["variant"] == "original")]
    forward = 3.0 - clean["episode_return"].mean()
    assert rows["noise"]["forward"] == pytest.approx(forward)
    assert (rows["noise"]["learned"], rows["noise"]["forgetting"]) == (6.0, 0.0)
    config = {"env": {"curriculum": "sequence", "variant": ["original", "noise"]}}
    runs: Any = [
        SimpleNamespace(method="m", seed=s, config=config, metrics=frame + s, game="breakout")
        for s in (0, 0.5)
    ]
    for run in runs:
        run.metrics["curriculum/variant"] = frame["curriculum/variant"]
    table = curriculum_table(runs)
    assert table.frame.set_index("variant").loc["original", "learned"] == 9.25
    assert table.frame["n_seeds"].tolist() == [2, 2]
    assert method_name({"algo": {"_target_": "x.PPO"}, **config}).endswith(
        "(on sequence: original, noise)"
    )
    assert not len(curriculum_table([]).frame)


@pytest.mark.slow
def test_a_resumed_curriculum_goes_on_exactly(tmp_path: Path) -> None:
    settings = [STAGES, "env.curriculum=sequence", "env.stage=64", "env.max_frames=200"]
    settings += ["eval.variants=[original,noise]", "checkpoint.keep=10", "env.size=36"]
    assert train(tmp_path / "straight", *settings) == 0
    rows = pd.read_csv(tmp_path / "straight" / "metrics.csv")
    expected = [min(max(step - 1, 0) // 64, 2) for step in rows["step"]]
    assert rows["curriculum/variant"].tolist() == expected
    place = tmp_path / "run"
    shutil.copytree(tmp_path / "straight", place)
    for step in checkpoint.steps(place):
        if step > 128:
            shutil.rmtree(place / "checkpoints" / f"{step:012d}")
    open_run(place).update(status="running")
    assert main(["resume", str(place)]) == 0
    assert same_runs(tmp_path / "straight", place)
