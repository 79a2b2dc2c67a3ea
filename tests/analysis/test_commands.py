"""The commands of the report: typed again, they make the same runs and measurements."""

import json
import shlex
import shutil
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from reprl.analysis.commands import commands
from reprl.analysis.load import collect
from reprl.analysis.training_commands import combined
from reprl.config.overrides import expand

VARIANTS = "original,constant_rectangle,moving_square,green_lines,diagonals"
LEVELS = "green_lines@0.25,green_lines@0.75,green_lines@1"


@pytest.fixture
def runs(sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(sweep, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    return Path("runs")


def lines(folder: Path, verb: str, out: str = "report") -> list[str]:
    found = commands(collect([folder]), out)
    return [line.removeprefix(f"reprl {verb} ") for line in found if line.split()[1] == verb]


def change(paths: list[Path], **columns: object) -> None:
    for path in paths:
        pd.read_csv(path).assign(**columns).to_csv(path, index=False)


def games(runs: Path) -> list[Path]:
    return sorted(runs.glob("*/evaluation/episodes.csv"))


def test_evaluations_name_players_and_protocol(runs: Path) -> None:
    change(games(runs), sticky=0.25, eval_seed=5)
    change([p for p in games(runs) if "ppo" in str(p)], deterministic=True)
    change(list(runs.glob("*/evaluation/twin.csv")), sticky=0.25, eval_seed=7, deterministic=True)
    players = "agents=random,scripted,scripted:distractor"
    how = "deterministic=true sticky=0.25"
    assert lines(runs, "evaluate") == [
        f"runs variants={VARIANTS},{LEVELS} episodes=20 {players} seed=5 games=shared {how}",
        f"runs twin=true variants={VARIANTS.partition(',')[2]} steps=60 seed=7 games=shared {how}",
    ]


def test_each_seed_is_a_command_of_its_own(runs: Path) -> None:
    for path in games(runs):
        table = pd.read_csv(path)
        again = table[(table["variant"] == "original") & (table["episode"] < 4)]
        again = again[again["train_seed"] >= 0].assign(eval_seed=9)
        pd.concat([table, again]).to_csv(path, index=False)
    shutil.rmtree(runs / "baselines")
    found = [line for line in lines(runs, "evaluate") if "twin" not in line]
    assert found == [
        f"runs variants={VARIANTS},{LEVELS} episodes=20 agents=none games=shared",
        "runs variants=original episodes=4 agents=none seed=9 games=shared",
    ]


def test_skill_and_blindness_are_asked_for_as_evaluate_reads_them(runs: Path) -> None:
    path = runs / "baselines" / "evaluation" / "episodes.csv"
    table = pd.read_csv(path)
    table = table[table["method"].isin(["random", "scripted"])]
    table["method"] = table["method"].replace("scripted", "scripted skill=0.3 blind_to=ball+bricks")
    table.to_csv(path, index=False)
    assert "agents=random,scripted@0.3:ball+bricks" in lines(runs, "evaluate")[0]


def test_attention_is_measured_again_with_its_extras(runs: Path) -> None:
    assert lines(runs, "attention") == [
        "runs variant=original steps=400",
        "runs variant=green_lines steps=400 over_training=true faithfulness=true",
    ]
    change(list(runs.glob("*/attention/scores.csv")), view="gradient", n_frames=80)
    assert lines(runs, "attention")[0] == "runs variant=original method=gradient steps=80"
    change(list(runs.glob("*/attention/scores.csv")), view="mask", player="scripted")
    assert lines(runs, "attention")[0] == "runs variant=original player=scripted steps=80"


def as_sweep(runs: Path, settings: list[tuple[str, ...]], *, ledger: bool) -> None:
    """Leave the runs as a sweep does: internal options in run.json, overrides in the ledger."""
    jobs = {}
    for folder, own in zip(sorted(runs.glob("ppo-*")), settings, strict=True):
        record = json.loads((folder / "run.json").read_text())
        job = [*own, "env.variant=[a,b]", "threads=1", "env.workers=0"]
        place = [f"run_dir='study/{folder.name}'", "progress=off", "--config-dir=my conf"]
        record["command"] = ["reprl", "train", *job, *place, "--sweep-name=study"]
        (folder / "run.json").write_text(json.dumps(record))
        jobs[folder.name] = {"folder": folder.name, "overrides": job}
    if ledger:
        (runs / "ledger.json").write_text(json.dumps({"version": 1, "jobs": jobs}))


GRID = list(product(("augmentation=none", "augmentation=boxes"), ("seed=1", "seed=2", "seed=3")))
SWEEP = (
    "augmentation=none,boxes seed=1,2,3 'env.variant=[a,b]' run_dir=study '--config-dir=my conf'"
)


@pytest.mark.parametrize("ledger", [True, False])
def test_a_sweep_is_one_command(runs: Path, ledger: bool) -> None:
    as_sweep(runs, GRID, ledger=ledger)
    assert lines(runs, "train") == [f"-m {SWEEP}"]
    if ledger:  # jobs that have no folder yet belong to it all the same
        shutil.rmtree(runs / "ppo-nature-2")
        assert lines(runs, "train") == [f"-m {SWEEP}"]


def test_jobs_that_are_no_product_stand_alone_without_internal_options(runs: Path) -> None:
    as_sweep(runs, [*GRID[:5], ("augmentation=noise", "seed=1")], ledger=True)
    found = lines(runs, "train")
    assert len(found) == 6
    assert "--sweep-name" not in " ".join(found)
    assert "progress" not in " ".join(found)
    assert "run_dir=study/ppo-nature-1 " in found[0]


def test_a_damaged_ledger_is_a_warning(runs: Path) -> None:
    as_sweep(runs, GRID, ledger=False)
    (runs / "ledger.json").write_text("{")
    results = collect([runs])
    assert f"reprl train -m {SWEEP}" in commands(results, "report")
    assert any("ledger.json: cannot be read" in w for w in results.warnings)


def test_a_sweep_put_together_expands_to_the_same_jobs() -> None:
    jobs = [[*job, "env.variant=[a,b]"] for job in GRID]
    together = combined(jobs)
    assert together is not None
    assert [sorted(job) for job in expand(together)] == [sorted(job) for job in jobs]


def test_names_are_quoted_for_the_shell(runs: Path) -> None:
    odd = runs.rename("my runs")
    line = commands(collect([odd]), "a report")[0]
    assert shlex.split(line) == ["reprl", "report", "my runs", "out=a report"]


def test_the_measured_checkpoint_is_named_where_it_is_not_the_newest(runs: Path) -> None:
    def record(best: int | None) -> None:
        for path in runs.glob("ppo*/run.json"):
            known = json.loads(path.read_text()) | {"step": 600_000}
            path.write_text(json.dumps(known | {"best": {"step": best} if best else None}))

    change(list(runs.glob("*/evaluation/twin.csv")), step=500_000)
    record(None)
    assert all(" checkpoint=500000" in line for line in lines(runs, "evaluate"))
    assert lines(runs, "attention")[0] == "runs variant=original steps=400 checkpoint=500000"
    for path in runs.glob("ppo*/run.json"):  # nothing damaged stops the report
        path.write_text(json.dumps(json.loads(path.read_text()) | {"best": "000"}))
    assert all(" checkpoint=500000" in line for line in lines(runs, "evaluate"))
    record(500_000)
    assert all(" checkpoint=best" in line for line in lines(runs, "evaluate"))
    for path in runs.glob("ppo*/run.json"):
        path.write_text(path.read_text().replace("600000", "500000"))
    assert not any("checkpoint=" in line for line in lines(runs, "evaluate"))


def test_a_view_that_looks_at_some_steps_is_given_all_of_them(runs: Path) -> None:
    from reprl.analysis.attention.views import Perturbation

    change(list(runs.glob("*/attention/scores.csv")), view="perturbation")
    found = lines(runs, "attention")[0]
    assert f"steps={400 * Perturbation.every}" in found
