"""Stable-Baselines3 as it is installed: its callbacks in a configuration, classes as parts, runs
that are trained further, and what a run says while it works.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from pathlib import Path

import kornia
import pandas
import pytest
import torch
import yaml

import reprl
import reprl.analysis
import reprl.envs
from reprl import checkpoint, components, trust
from reprl.algorithms import PPO
from reprl.augmentation import Cutout
from reprl.auxiliary.sparsity import Sparsity
from reprl.cli import is_training, main
from reprl.config.schema import load
from reprl.encoders import Impala, Nature
from reprl.encoders.convolutional import ConvEncoder
from reprl.encoders.masks import ConvMask
from reprl.envs import make_vec_env
from reprl.runs.extend import stretched
from reprl.runs.progress import PATIENCE, Progress, ProgressState
from reprl.schedules import scaled, schedule
from tests.helpers import Commands, refuses
from tests.runs import make_run, train

STOP = """
from stable_baselines3.common.callbacks import BaseCallback

class Stop(BaseCallback):
    def __init__(self, after):
        super().__init__()
        self.after = after

    def _on_step(self):
        return self.num_timesteps < self.after
"""


def test_a_class_or_a_named_part_with_a_key_changed_is_a_spec() -> None:
    assert components.resolve("encoder", Impala) == {"_target_": "reprl.encoders.impala.Impala"}
    given = components.resolve("augmentation", {"_target_": Cutout, "sides": [9, 9]})
    assert given == {"_target_": f"{Cutout.__module__}.Cutout", "sides": [9, 9]}
    named = components.resolve("augmentation", {"name": "cutout", "sides": [9, 9]})
    assert named == {**(components.resolve("augmentation", "cutout") or {}), "sides": [9, 9]}
    with refuses("augmentation", "cutot", "'cutout'"):
        components.resolve("augmentation", {"name": "cutot"})
    with refuses("encoder", "Nature", "class"):
        components.resolve("encoder", Nature.__new__(Nature))  # type: ignore[arg-type]

    class Hidden(Impala):
        pass

    with refuses("Hidden", "module"):
        components.resolve("encoder", Hidden)


def test_a_configuration_without_callbacks_is_the_one_it_was() -> None:
    assert "callbacks" not in load([]).plain()
    with_one = load(["+callbacks.stop={_target_:mine.Stop,after:3}"])
    assert with_one.plain()["callbacks"] == {"stop": {"_target_": "mine.Stop", "after": 3}}
    assert with_one.hash != load([]).hash


@pytest.mark.slow
def test_a_callback_of_the_configuration_stops_a_run(tmp_path: Path) -> None:
    (tmp_path / "own_callbacks.py").write_text(STOP)
    spec = "+callbacks.stop={_target_:own_callbacks.Stop,after:70}"
    assert train(tmp_path / "run", spec, f"--config-dir={tmp_path}", "eval.every=0") == 0
    assert checkpoint.steps(tmp_path / "run")[-1] < 192
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert "own_callbacks" in record["code"]["modules"]


def test_a_folder_cannot_bring_callbacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SB3's own write files wherever they are told: a stranger's folder must not choose them."""
    run = make_run(tmp_path / "run")
    values = yaml.safe_load((run / "config.yaml").read_text())
    target = "stable_baselines3.common.callbacks.CheckpointCallback"
    spec = {"_target_": target, "save_freq": 1, "save_path": str(tmp_path / "stolen")}
    values["callbacks"] = {"x": spec}
    (run / "config.yaml").write_text(yaml.safe_dump(values))
    record = json.loads((run / "run.json").read_text())
    record |= {"status": "interrupted", "config_hash": None}
    (run / "run.json").write_text(json.dumps(record))
    Commands(capsys).refuse(["resume", str(run)], target, "trust=")
    assert not (tmp_path / "stolen").exists()


@pytest.mark.slow
def test_a_finished_run_is_trained_further(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path / "run", "eval.every=0") == 0
    rows = (tmp_path / "run" / "metrics.csv").read_text()
    assert main(["extend", str(tmp_path / "run"), "total_steps=256"]) == 0
    said = capsys.readouterr().out
    assert "192 steps become 256" in said
    assert "algo.learning_rate is stretched" in said
    assert checkpoint.steps(tmp_path / "run")[-1] == 256
    assert (tmp_path / "run" / "metrics.csv").read_text().startswith(rows)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["status"] == "finished"
    assert [(e["from"], e["to"]) for e in record["extended"]] == [(192, 256)]
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_what_a_longer_run_does_to_schedules() -> None:
    rate = {"kind": "linear", "start": 4.0, "end": 0.0}
    settings = {"algo": {"learning_rate": rate, "gamma": 0.9}}
    (said,) = stretched(settings, 100, 100, 400)
    assert "algo.learning_rate" in said
    assert "0 becomes 3" in said


def test_a_line_is_shown_though_no_row_is_due(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = Progress("x")
    progress.say("a sentence is no row")
    progress.show(ProgressState(step=1), row=False)
    assert "step 1" in capsys.readouterr().out  # the first update has a line, whatever is due
    later = time.monotonic() + PATIENCE
    monkeypatch.setattr(time, "monotonic", lambda: later)
    progress.say("nor does it delay one")
    progress.show(ProgressState(step=2), row=False)
    progress.show(ProgressState(step=3), row=False)
    said = capsys.readouterr().out
    assert "step 2" in said
    assert "step 3" not in said


@pytest.mark.slow
def test_a_model_of_classes_is_saved_and_loaded(tmp_path: Path) -> None:
    env = make_vec_env(n_envs=1, stack=2, size=36)
    model = PPO("CnnPolicy", env, n_steps=8, batch_size=8, encoder=Impala, seed=0)
    checkpoint.save(model, tmp_path)
    again = checkpoint.load(tmp_path)
    for name, value in model.policy.state_dict().items():
        assert torch.equal(again.policy.state_dict()[name], value)


STEPS = """
class Steps:
    def __init__(self, start, halve_every):
        self.start, self.halve_every = start, halve_every

    def __call__(self, progress_remaining):
        return self.start * 0.5 ** int((1.0 - progress_remaining) / self.halve_every)


def bent(progress_remaining, top):
    return top * progress_remaining**2


def words(progress_remaining):
    return "much"
"""
SB3S_LINEAR = {
    "_target_": "stable_baselines3.common.utils.LinearSchedule",
    "start": 0.2,
    "end": 0.05,
    "end_fraction": 0.5,
}


def test_a_schedule_of_ones_own_or_of_sb3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_schedules.py").write_text(STEPS)
    monkeypatch.syspath_prepend(tmp_path)
    steps = schedule({"_target_": "own_schedules.Steps", "start": 8.0, "halve_every": 0.25})
    assert [steps(p) for p in (1.0, 0.8, 0.7, 0.1, -0.1)] == [8.0, 8.0, 4.0, 1.0, 0.5]
    bent = {"_target_": "own_schedules:bent", "top": 4.0, "_partial_": True}
    assert schedule(bent)(0.5) == 1.0
    assert schedule(scaled(bent, 3.0))(0.5) == 3.0  # a coefficient that is nested in another
    assert schedule(SB3S_LINEAR)(0.75) == pytest.approx(0.125)
    assert schedule(schedule(bent).plain())(0.5) == 1.0
    with refuses("rate", "own_schedules:words", "'much'"):
        schedule({"_target_": "own_schedules:words", "_partial_": True}, name="rate")
    with refuses("rate", "own_schedules.Steps", "halve_evry"):
        schedule({"_target_": "own_schedules.Steps", "halve_evry": 1}, name="rate")
    with refuses("algo.learning_rate", "_target_", "my_module"):
        load(["algo.learning_rate={_target_:Steps}"])
    said = stretched({"algo": {"_target_": "reprl.algorithms.PPO", "ent_coef": bent}}, 50, 100, 200)
    assert ["algo.ent_coef" in sentence for sentence in said] == [True]


def test_a_folder_cannot_bring_a_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sent_schedules.py").write_text(STEPS + "\nopen('ran', 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path, str(tmp_path)])
    for path in ("sent_schedules.Steps", "stable_baselines3.common.utils.get_device", "os.system"):
        with trust.reading(tmp_path), refuses(path):
            schedule({"_target_": path})
    with trust.reading(tmp_path):
        assert schedule(SB3S_LINEAR)(1.0) == 0.2
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_a_run_has_a_schedule_of_ones_own_and_its_checkpoint_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run_schedules.py").write_text(STEPS)
    rate = "{_target_:run_schedules.Steps,start:1e-3,halve_every:0.25}"
    words = [f"algo.learning_rate={rate}", "eval.every=0", f"--config-dir={tmp_path}"]
    assert train(tmp_path / "run", *words) == 0
    assert "halve_every" not in capsys.readouterr().err  # nobody wonders at a key of the user's
    rates = pandas.read_csv(tmp_path / "run" / "metrics.csv")["train/learning_rate"]
    assert rates.iloc[0] > 2 * rates.iloc[-1]
    model = checkpoint.load(tmp_path / "run", trust=["run_schedules"])
    assert model.learning_rate.plain()["halve_every"] == 0.25
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert "run_schedules" in record["code"]["modules"]


class Plain(torch.nn.Module):
    """A module of a user's own that keeps what it was given."""

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return (pictures * self.gain).clamp(0, 1)


class Forgetful(Plain):
    def __init__(self, gain: float, offset: float) -> None:
        super().__init__(gain)
        self.table = [gain + offset]


@pytest.mark.parametrize(
    ("part", "given"),
    [
        (Cutout(sides=(9, 9)), {"sides": [9, 9]}),
        (Cutout(), {}),
        (Plain(0.5), {"gain": 0.5}),
        (kornia.augmentation.RandomAffine(10.0, p=0.7), {"degrees": 10.0, "p": 0.7}),
        (kornia.augmentation.RandomErasing(scale=(0.1, 0.2), p=1.0), {"scale": [0.1, 0.2], "p": 1}),
    ],
)
def test_an_instance_is_a_spec_where_an_equal_one_can_be_built(
    part: torch.nn.Module, given: dict[str, object]
) -> None:
    spec = components.resolve("augmentation", part)
    assert spec is not None
    assert {key: value for key, value in spec.items() if key != "_target_"} == given
    assert spec["_target_"] == f"{type(part).__module__}.{type(part).__qualname__}"


def test_other_instances_are_refused_and_losses_may_be_classes_or_instances() -> None:
    for part in (Forgetful(1.0, 2.0), kornia.augmentation.AugmentationSequential(Plain())):
        with refuses(type(part).__name__, "class", "_target_"):
            components.resolve("augmentation", part)
    with refuses("Linear", "_target_"):
        components.resolve("augmentation", torch.nn.Linear(2, 2))  # whose weights nobody could save
    losses = components.agent_specs(auxiliary=[Sparsity(coef=0.3), "contrastive"]).auxiliary
    assert losses["sparsity"]["coef"] == 0.3
    assert list(losses) == ["sparsity", "contrastive"]
    assert list(components.agent_specs(auxiliary=Sparsity).auxiliary) == ["sparsity"]


class Squeezed(ConvMask):
    """A mask of a user's own that hands most arguments on."""

    def __init__(self, *, gain: float = 1.0, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.gain = gain


def test_encoders_and_masks_are_taken_as_they_were_made() -> None:
    env = make_vec_env(n_envs=2, size=36, stack=2)
    given = {"channels": 64, "size": (1, 1), "hidden": (8,)}  # what it is sized by is the agent's
    for mask, own in ((ConvMask(**given), {}), (Squeezed(gain=2.0, **given), {"gain": 2.0})):
        spec = components.resolve("attention", mask)
        assert spec is not None
        target = f"{type(mask).__module__}.{type(mask).__qualname__}"
        assert spec == {"_target_": target, "hidden": [8], **own}
    encoder = Nature(env.observation_space, features_dim=32, dropout=0.1, attention="conv")
    sizes = {"n_steps": 8, "batch_size": 16, "seed": 5, "device": "cpu"}
    by_instance = PPO("CnnPolicy", env, encoder=encoder, **sizes)
    spec = {"_target_": Nature, "features_dim": 32, "dropout": 0.1, "attention": "conv"}
    by_spec = PPO("CnnPolicy", env, encoder=spec, **sizes)
    assert by_instance.specs == by_spec.specs
    theirs = by_spec.policy.state_dict()
    for name, tensor in by_instance.policy.state_dict().items():
        assert torch.equal(tensor, theirs[name]), name


def test_weights_that_no_spec_holds_are_refused() -> None:
    space = make_vec_env(n_envs=1, size=36, stack=2).observation_space
    trained, loaded, frozen = (Nature(space, features_dim=8) for _ in range(3))
    loaded.load_state_dict(Nature(space, features_dim=8).state_dict())
    optimizer = torch.optim.Adam(trained.parameters(), fused=True)
    trained(torch.rand(2, *space.shape)).sum().backward()
    assert components.resolve("encoder", trained) is not None  # a gradient changes nothing yet
    optimizer.step()
    frozen.requires_grad_(False)
    for encoder in (trained, loaded, frozen):
        with refuses("encoder", "Nature", "weights", "policy"):
            components.resolve("encoder", encoder)
    own = ConvEncoder(space, torch.nn.Sequential(torch.nn.Conv2d(2, 4, 8), torch.nn.ReLU()))
    with refuses("encoder", "ConvEncoder", "class", "numbers"):  # a network is no plain argument
        components.resolve("encoder", own)


def test_signatures_and_names_are_real() -> None:
    words = inspect.signature(PPO).parameters
    assert {"learning_rate", "clip_range", "seed", "encoder", "auxiliary", "mode"} <= set(words)
    assert not {"args", "kwargs"} & set(words)
    assert list(inspect.signature(MyPPO).parameters) == ["env", "gain"]
    assert {"load", "save", "read"} <= set(dir(checkpoint))
    for module in (reprl, checkpoint, reprl.envs, reprl.analysis):
        assert all(hasattr(module, name) for name in dir(module) if not name.startswith("_"))
    assert list(inspect.signature(reprl.train).parameters)[:2] == ["experiment", "overrides"]


class MyPPO(PPO):
    def __init__(self, env: object, gain: float = 1.0) -> None:
        super().__init__("CnnPolicy", env, gamma=gain)


def test_a_silent_run_says_that_it_is_at_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reprl.runs.progress.FIRST", 0.2)
    said = ""
    with Progress("x", at_work=lambda: "step 512/1,024 | training"):
        for _ in range(100):
            said += capsys.readouterr().out
            if said:
                break
            time.sleep(0.1)
    assert said.startswith("step 512/1,024 | training, ")
    with Progress("x", mode="off", at_work=lambda: "never"):
        time.sleep(0.8)
    assert capsys.readouterr().out == ""


def test_what_is_said_at_once() -> None:
    assert is_training(["train", "seed=1", "-m"])
    assert is_training(["pretrain", "data=random"])
    for words in (["train", "--cfg", "job"], ["train", "progress=off"], ["report", "runs"], []):
        assert not is_training(words)
