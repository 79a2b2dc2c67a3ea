"""A user's own encoder, loss, augmentation and variant, in a folder of their own, without edits."""

import shutil
import sys
from pathlib import Path

import pytest

from reprl import checkpoint
from reprl.cli import main
from tests.runs import SMALL

pytestmark = pytest.mark.slow  # trains

CODE = """
import torch
from torch import nn
from reprl.augmentation.base import Augmentation, View
from reprl.auxiliary.base import AuxiliaryLoss
from reprl.encoders.base import Encoder, EncoderOutput
from reprl.envs import Effect, Part, Variant
from reprl.envs.shaping import RewardShaping

class Tiny(Encoder):
    def __init__(self, observation_space, *, width=4, features_dim=16):
        super().__init__(observation_space, features_dim)
        self.conv = nn.Conv2d(observation_space.shape[0], width, 12, 12)
        self.linear = nn.Linear(width * 49, features_dim)
    def encode(self, images):
        maps = self.conv(images).relu()
        return EncoderOutput(self.linear(maps.flatten(1)).relu(), maps, None)
    def project(self, attention, size):
        return nn.functional.interpolate(attention, size)

class Small(AuxiliaryLoss):
    def __init__(self, *, coef=0.1):
        super().__init__()
        self.weights = {"small": coef}
    def forward(self, batch, encoder):
        return {"small": batch.output.features.square().mean()}

class Invert(Augmentation):
    def forward(self, observations, generator):
        chosen = torch.rand(len(observations), 1, 1, 1, generator=generator) < 0.5
        return View(torch.where(chosen, 255 - observations, observations))

class Doubled(RewardShaping):
    kept = ("paid",)
    def begin(self, state):
        self.paid = 0.0
    def reward(self, step):
        self.paid += 2 * step.reward
        return 2 * step.reward + 0.01 * self.paid

class Band(Effect):
    def draw(self, frame, objects):
        frame[100:110] = 200

band = Variant(name="band", family="mine", effects=(Part("mine_parts:Band"),), help="A gray band.")
"""
YAML = {
    "encoder/tiny.yaml": "# mine\n_target_: mine_parts.Tiny\nwidth: 4\nfeatures_dim: 16\n",
    "auxiliary/small.yaml": "# mine\n_target_: mine_parts.Small\ncoef: 0.1\n",
    "shaping/doubled.yaml": "# mine\n_target_: mine_parts.Doubled\n",
    "augmentation/invert.yaml": "# mine\n_target_: mine_parts.Invert\nuse: rad\n",
}
BASE = [setting for setting in SMALL if "encoder" not in setting]
TINY = [
    "encoder=tiny",
    "auxiliary=small",
    "augmentation=invert",
    "shaping=doubled",
    "env.variant=mine_parts:band",
    *BASE,
    "total_steps=64",
    "checkpoint.every=32",
    "eval.episodes=1",
    "eval.every=64",
    "eval.variants=['mine_parts:band']",
]


def forget() -> None:
    """As in a new process: nothing of the user's folder is known."""
    sys.modules.pop("mine_parts", None)
    sys.path[:] = [p for p in sys.path if not (Path(p) / "mine_parts.py").exists()]


def test_own_parts_train_checkpoint_resume_and_evaluate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    for name, text in YAML.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / "mine_parts.py").write_text(CODE)
    run = tmp_path / "run"
    try:
        assert main(["train", f"--config-dir={home}", *TINY, f"run_dir={run}"]) == 0
        whole = checkpoint.read(run)
        shutil.rmtree(run / "checkpoints" / "000000000064")
        text = (run / "run.json").read_text().replace('"finished"', '"interrupted"')
        (run / "run.json").write_text(text)
        forget()
        assert main(["resume", str(run)]) == 2  # where the run found them is shown, not searched
        said = capsys.readouterr().err
        assert "trust=mine_parts" in said
        assert str(home) in said
        assert main(["resume", str(run), f"--config-dir={home}"]) == 0
        again = checkpoint.read(run)
        for name, tensor in whole.parameters.items():
            assert tensor.equal(again.parameters[name]), name
        forget()
        arguments = ["variants=mine_parts:band", "episodes=1", "workers=0", "progress=off"]
        assert main(["evaluate", str(run), *arguments, f"--config-dir={home}"]) == 0
        episodes = (run / "evaluation" / "episodes.csv").read_text()
        assert ",band," in episodes
        assert main(["list", "encoder", f"--config-dir={home}"]) == 0
        assert "tiny" in capsys.readouterr().out
    finally:
        forget()
