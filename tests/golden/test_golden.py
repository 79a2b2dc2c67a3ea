"""Golden files: what an earlier version wrote still loads, continues, plays and reports the same.

Bits are compared where this machine computes as the one that wrote the files did; another CPU may
round differently, and its numbers are held to a tolerance. Emulators, seeds and tables are exact
everywhere. A later version may add tensors, columns and tables; what is here must stay.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reprl import checkpoint
from reprl.cli import main
from reprl.envs import make_vec_env
from reprl.runs.folder import open_run
from tests.golden import record

GOLDEN = Path(__file__).parent / "v0_2_0"
FINALS: dict[str, Any] = json.loads((GOLDEN / "finals.json").read_text())
SAME_MACHINE = record.machine() == json.loads((GOLDEN / "machine.json").read_text())
KEPT = sorted(FINALS)
# compiling takes a minute, and a compiler
RUNS = [pytest.param(r, marks=[pytest.mark.slow] * ("fast" in r)) for r in KEPT]
# what says how a model is built may be written in other words, as long as it builds the same one
BUILDING = {"algorithm", "constructor", "arguments", "extras"}
# the numbers of training, which another CPU rounds differently
ROUNDED = {"log", "optimizer_scalars"}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A copy of all the runs, to be continued and measured again."""
    place = tmp_path / "runs"
    shutil.copytree(GOLDEN / "runs", place)
    return place


# What 0.3 measures in another way: random play, and intervals where runs shared their games.
NEVER = re.compile("(?!)")
CHANGED = {
    "difficulty.csv": re.compile("random"),
    "overall.csv": re.compile("(clean|score|iqm)_(low|high)|iqm"),
    "scores.csv": re.compile(".*_(low|high)"),
}


def play_again(place: Path) -> None:
    """Evaluate as the golden games were: the protocol is said in full, whatever the defaults are.

    Games and actions are drawn from seed 0, alike for all agents and variants.
    """
    protocol = ["episodes=3", "seed=0", "deterministic=false", "sticky=0.0", "checkpoint=newest"]
    protocol.append("games=shared")
    variants = "variants=original,green_lines,moving_square,noise@0.5"
    machine = ["n_envs=8", "workers=0", "threads=1", "progress=off"]
    assert main(["evaluate", str(place), variants, *protocol, *machine, "agents=random"]) == 0


def same_table(ours: Path, golden: Path, keys: list[str], rtol: float = 0.0) -> None:
    """Every row and column of the golden table is in ours, in any order."""
    tables = [pd.read_csv(path) for path in (ours, golden)]
    assert set(tables[1]) <= set(tables[0]), f"{ours.name} has lost columns"
    columns = list(tables[1])
    a, b = (t[columns].sort_values(keys).reset_index(drop=True) for t in tables)
    pd.testing.assert_frame_equal(a, b, check_dtype=False, check_exact=not rtol, rtol=rtol or 1e-5)


@pytest.mark.parametrize("name", KEPT)
def test_a_checkpoint_loads_to_the_same_bits(name: str) -> None:
    run = GOLDEN / "runs" / name
    start = FINALS[name]["start"]
    assert set(checkpoint.verify(run / "checkpoints" / f"{start:012d}").values()) == {"ok"}
    stored = checkpoint.read(run)
    env = None if "fast" in name else open_env(run)
    try:
        model = checkpoint.load(run, env)
        assert model.num_timesteps == start
        captured = model.capture()
        theirs, ours = record.bits(stored), record.bits(captured)
        assert ours["parameters"] == theirs["parameters"]
        assert ours["optimizer"] == theirs["optimizer"]
        if env is not None:  # with its environment the model is all there, random streams included
            assert {k: ours["state"].get(k) for k in theirs["state"]} == theirs["state"]
        for key in set(stored.meta) - BUILDING - {"threads", "compiled"}:
            assert captured.meta[key] == stored.meta[key], key
    finally:
        if env is not None:
            env.close()


def open_env(run: Path) -> Any:
    """The environments that a golden run was trained in."""
    config = open_run(run).config()
    e = config.env
    return make_vec_env(e.variant, e.n_envs, config.seed, max_frames=e.max_frames)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on_to_the_same_bits(
    name: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, golden = runs / name, FINALS[name]
    open_run(run).update(status="interrupted")
    code, said = main(["resume", str(run)]), capsys.readouterr().err
    if code == 2 and "torch.compile fails here" in said:
        pytest.skip("torch has no compiler here")  # and a compiled run rightly refuses to go on
    assert code == 0, said
    assert open_run(run).status() == "finished"
    ours = record.final(run, start=golden["start"], end=golden["end"])
    for part, bits in golden["bits"].items():
        lost = set(bits) - set(ours["bits"][part])
        assert not lost, f"{part} has lost {sorted(lost)}"
    assert set(golden["bits"]["parameters"]) == set(ours["bits"]["parameters"])
    rounded = set() if SAME_MACHINE else ROUNDED
    for key in set(golden["meta"]) - BUILDING - rounded:
        assert same(ours["meta"][key], golden["meta"][key]), key
    if SAME_MACHINE:
        for part, bits in golden["bits"].items():
            assert {k: ours["bits"][part][k] for k in bits} == bits, part
        assert same(ours["loop"], golden["loop"])
    for parameter, was in golden["parameters"].items():
        now = ours["parameters"][parameter]
        step = max(was["moved"], 1e-6)
        assert abs(now["moved"] - was["moved"]) <= 0.05 * step, parameter
        assert np.abs(np.subtract(now["head"], was["head"])).max() <= 0.05 * step, parameter
    same_metrics(run / "metrics.csv", GOLDEN / "runs" / name / "metrics.csv")
    games = [p / name / "evaluation" / "validation.csv" for p in (runs, GOLDEN / "runs")]
    assert games[0].read_bytes() == games[1].read_bytes()


def same(a: Any, b: Any) -> bool:
    """Equal as JSON, where NaN equals itself."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def same_metrics(ours: Path, golden: Path) -> None:
    a, b = pd.read_csv(ours), pd.read_csv(golden)
    columns = [c for c in b if not c.startswith("time/")]
    assert set(columns) <= set(a)
    pd.testing.assert_frame_equal(
        a[columns], b[columns], check_exact=SAME_MACHINE, rtol=0.02, atol=1e-3
    )


def test_agents_play_the_same_games(runs: Path) -> None:
    kept = [runs / name for name in KEPT]
    for run in runs.iterdir():
        if run.is_dir() and run not in kept:
            shutil.rmtree(run)
    for played in runs.rglob("episodes.csv"):
        played.unlink()
    play_again(runs)
    keys = ["method", "variant", "episode"]
    for name in KEPT:
        file = Path(name) / "evaluation" / "episodes.csv"
        same_table(runs / file, GOLDEN / "runs" / file, keys)
    file = Path("baselines") / "evaluation" / "episodes.csv"
    same_table(runs / file, GOLDEN / "runs" / file, keys)


def test_an_environment_goes_on_to_the_same_games() -> None:
    env = make_vec_env(record.VARIANTS, seed=99, **record.SETTINGS)
    try:
        env.restore((GOLDEN / "environment.snapshot").read_bytes())
        golden = json.loads((GOLDEN / "environment.json").read_text())
        for variant, ours, theirs in zip(record.VARIANTS, record.future(env), golden, strict=True):
            assert ours == theirs, variant
    finally:
        env.close()


def test_the_report_has_the_same_numbers(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs.parent)
    assert main(["report", "runs", "out=report", "figures=false"]) == 0
    golden = sorted((GOLDEN / "report" / "tables").glob("*.csv"))
    assert golden
    for file in golden:
        a, b = pd.read_csv(runs.parent / "report" / "tables" / file.name), pd.read_csv(file)
        kept = [c for c in b if not CHANGED.get(file.name, NEVER).fullmatch(c)]
        assert set(kept) <= set(a), f"{file.name} has lost columns"
        assert len(kept) > 1
        if "method" in b:  # 0.3 ships 500 games of random play and takes them instead of three
            a, b = (t[t["method"] != "random"].reset_index(drop=True) for t in (a, b))
        # the last digits of statistics are the CPU's too
        pd.testing.assert_frame_equal(a[kept], b[kept], rtol=1e-6, obj=file.name)
