"""Hydra as it is installed: options, an own primary configuration, glob, launchers, sweepers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reprl.cli import main
from reprl.config.schema import load
from reprl.sweeps import plan
from tests.runs import TINY

OWN = """
defaults: [train, override encoder: impala, _self_]
total_steps: ${oc.env:STEPS}
algo: {n_steps: 16, batch_size: 64}
"""
SWEEPER = """
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper

class Halving(Sweeper):
    def __init__(self, values):
        self.values = values
    def setup(self, *, hydra_context, task_function, config):
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        self.folder = config.hydra.sweep.dir
    def sweep(self, arguments):
        told = []
        for number, value in enumerate(self.values):
            job = self.launcher.launch([[*arguments, f"seed={value}"]], initial_job_idx=number)[0]
            told.append((value, job.return_value))
        with open("told.txt", "a") as file:
            print(told, file=file)

ConfigStore.instance().store(
    group="hydra/sweeper", name="halving",
    node={"_target_": "hydra_plugins.halving.Halving", "values": [4, 7]},
)
"""


def test_hydras_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "encoder=impala", "seed=${oc.env:NONE,3}", "--cfg", "job"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["encoder"]["_target_"] == "reprl.encoders.Impala"
    assert printed["seed"] == "${oc.env:NONE,3}"
    assert main(["train", "seed=${oc.env:NONE,3}", "--cfg=job", "--resolve"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["seed"] == "3"
    assert main(["train", "--cfg", "hydra", "--package", "hydra.launcher"]) == 0
    assert "LedgerLauncher" in capsys.readouterr().out
    assert main(["train", "--info", "defaults"]) == 0
    assert "hydra/launcher" in capsys.readouterr().out


def test_an_own_primary_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text(OWN)
    monkeypatch.setenv("STEPS", "96")
    config = load(["hydra.job.config_name=mine", "encoder.width=2"], [tmp_path])
    assert config.total_steps == 96
    assert config.encoder["_target_"] == "reprl.encoders.Impala"
    assert config.algo["n_steps"] == 16
    assert config.choices["encoder"] == "impala"
    jobs = plan.make(["hydra.job.config_name=mine", "seed=0,1"], [tmp_path]).jobs
    assert [job.config.total_steps for job in jobs] == [96, 96]
    assert all("hydra.job.config_name=mine" in job.overrides for job in jobs)


def test_glob_chooses_among_the_options_of_a_group(tmp_path: Path) -> None:
    jobs = plan.make(["attention=glob(conv*,exclude=conv_deep)", "seed=0"], []).jobs
    assert [job.config.choices["attention"] for job in jobs] == ["conv", "conv_21"]


def test_a_part_in_braces_takes_the_place_of_the_named_one() -> None:
    config = load(["encoder={_target_:reprl.encoders.Impala,width:2}", "device=cpu"])
    assert config.encoder == {"_target_": "reprl.encoders.Impala", "width": 2}
    spec = "augmentation={_target_:reprl.augmentation.Cutout,sides:[9,9]}"
    assert load([spec]).augmentation["sides"] == [9, 9]
    changed = load(["augmentation=cutout", "augmentation.sides=[9,9]"])
    assert changed.augmentation["sides"] == [9, 9]


def _sweep(place: Path, *words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(path)} if path else dict(os.environ)
    settings = [w for w in TINY if not w.startswith(("total_steps", "eval.every"))]
    command = [sys.executable, "-P", "-m", "reprl", "train", "-m", *settings, "total_steps=32"]
    return subprocess.run(
        [*command, *words], cwd=place, env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_joblib_jobs_keep_the_ledger(tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    words = ["seed=0,1", "run_dir=sweep", "hydra/launcher=joblib", "sweep.jobs=1", "eval.every=0"]
    done = _sweep(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    entries = json.loads((tmp_path / "sweep" / "ledger.json").read_text())["jobs"].values()
    assert [e["status"] for e in entries] == ["finished", "finished"]
    files = [tmp_path / "sweep" / e["folder"] / "run.json" for e in entries]
    written = [file.stat().st_mtime_ns for file in files]
    assert _sweep(tmp_path, *words).returncode == 0
    assert [file.stat().st_mtime_ns for file in files] == written  # nothing ran again


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["reprl", "basic"])
def test_any_sweeper_is_told_the_scores(tmp_path: Path, launcher: str) -> None:
    plugins = tmp_path / "plugins" / "hydra_plugins"
    plugins.mkdir(parents=True)
    (plugins / "halving.py").write_text(SWEEPER)
    more = [] if launcher == "reprl" else [f"hydra/launcher={launcher}"]
    words = ["hydra/sweeper=halving", "run_dir=sweep", "eval.every=32", *more]
    done = _sweep(tmp_path, *words, path=tmp_path / "plugins")
    assert done.returncode == 0, done.stderr
    told = eval((tmp_path / "told.txt").read_text())  # noqa: S307  # ours
    assert [seed for seed, _ in told] == [4, 7]
    entries = json.loads((tmp_path / "sweep" / "ledger.json").read_text())["jobs"].values()
    files = [tmp_path / "sweep" / e["folder"] / "run.json" for e in entries]
    best = [json.loads(file.read_text())["best"]["score"] for file in files]
    assert best == [score for _, score in told]
