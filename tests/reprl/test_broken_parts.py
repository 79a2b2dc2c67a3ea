"""A user's own parts that are wrong: one sentence that names them, exit code 2, no run folder."""

import sys
from pathlib import Path

import pytest

from reprl.cli import main
from reprl.cli.arguments import name_folders
from reprl.envs import make_vec_env
from reprl.evaluation import evaluate
from tests.helpers import Commands

CODE = """
import torch
from reprl.augmentation.base import Augmentation, View
from reprl.auxiliary.base import AuxiliaryLoss
from reprl.encoders.base import Encoder, EncoderOutput
from reprl.encoders.masks import Mask
from reprl.envs import Effect

class Base(Encoder):
    def __init__(self, observation_space):
        super().__init__(observation_space, 16)
        self.conv = torch.nn.Conv2d(4, 4, 12, 12)
    def project(self, attention, size):
        return attention
class Wide(Base):
    def encode(self, images):
        maps = self.conv(images)
        return EncoderOutput(maps.flatten(1), maps, None)
class Bare(Base):
    def encode(self, images):
        return self.conv(images).flatten(1)
class Raising(Base):
    def encode(self, images):
        raise ValueError("no such pixel")
class Forgetful(Encoder):
    def __init__(self, observation_space):
        self.conv = torch.nn.Conv2d(4, 4, 12, 12)
class Large(Mask):
    def __init__(self, channels, size):
        super().__init__()
    def forward(self, maps):
        return maps.mean(1, keepdim=True).repeat(1, 1, 2, 2)

class Mute(AuxiliaryLoss):
    def forward(self, batch, encoder):
        return {"mute": batch.values.mean()}
class Term(AuxiliaryLoss):
    def __init__(self):
        super().__init__()
        self.declare("mine", coef=1.0)
class Tensorial(Term):
    def forward(self, batch, encoder):
        return batch.values.mean()
class Wrong(Term):
    def forward(self, batch, encoder):
        return {"mine": batch.values + None}
class Float(Term):
    def forward(self, batch, encoder):
        return {"mine": batch.values.mean()}

class Halving(Augmentation):
    def forward(self, observations, generator):
        return View(observations[:, :, ::2])

class Blind(Effect):
    def draw(self, frame, objects):
        frame[:10] = objects.score
class Copying(Effect):
    def draw(self, frame, objects):
        return frame + 1
class Crooked(Effect):
    def draw(self, frame, objects):
        frame[:] = [1, 2]

class Strong(Mask):
    def __init__(self, *, channels, size):
        super().__init__()
    def forward(self, features):
        return 2 * torch.ones_like(features[:, :1])
"""
SMALL = [
    *("threads=1", "device=cpu", "progress=off", "eval.every=0", "total_steps=32"),
    *("env.n_envs=2", "algo.n_steps=8", "algo.batch_size=8"),
]
YAML = {
    "encoder/wide": "wrong_parts.Wide",
    "encoder/bare": "wrong_parts.Bare",
    "encoder/raising": "wrong_parts.Raising",
    "encoder/forgetful": "wrong_parts.Forgetful",
    "encoder/broken": "broken_parts.Any",
    "encoder/absent": "wrong_parts.Nothing",
    "encoder/empty": None,
    "attention/large": "wrong_parts.Large",
    "attention/strong": "wrong_parts.Strong",
    **{
        f"auxiliary/{n}": f"wrong_parts.{n.title()}"
        for n in ("mute", "tensorial", "wrong", "float")
    },
    "augmentation/halving": "wrong_parts.Halving",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the user's modules and, in conf/, their YAML."""
    (tmp_path / "wrong_parts.py").write_text(CODE)
    (tmp_path / "broken_parts.py").write_text("def f(:\n")
    for name, target in YAML.items():
        file = tmp_path / "conf" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# mine\n_target_: {target}\n" if target else "# mine\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for module in ("wrong_parts", "broken_parts"):
        sys.modules.pop(module, None)


WRONG = {
    "encoder=wide": ["Wide.encode()", "(1, 196)"],
    "encoder=bare": ["Bare.encode()", "EncoderOutput", "Tensor"],
    "encoder=raising": ["wrong_parts.py:24", "ValueError: no such pixel"],
    "encoder=forgetful": ["__init__()", "wrong_parts.py:27", "AttributeError"],
    "encoder=broken": ["'broken_parts.Any'", "SyntaxError"],
    "encoder=absent": ["'wrong_parts.Nothing'", "AttributeError"],
    "encoder=empty": ["encoder=empty", "_target_"],
    "attention=large": ["Large", "(1, 1, 14, 14)", "(batch, masks, 7, 7)"],
    "attention=strong": ["from 2 to 2", "0 and 1"],
    "auxiliary=mute": ["'mute'", "self.declare"],
    "auxiliary=tensorial": ["{'mine': loss}", "Tensor"],
    "auxiliary=wrong": ["wrong_parts.py:46", "TypeError"],
    "auxiliary=float": ["'float'"],
    "augmentation=halving": ["'Halving'", "(4, 4, 42, 84)"],
    "env.variant=wrong_parts:Blind": ["needs_objects = True"],
    "env.variant=wrong_parts:Copying": ["draw()", "in place"],
    "env.variant=wrong_parts:Crooked": ["'wrong_parts:Crooked'", "ValueError"],
    "env.variant=broken_parts:Any": ["'broken_parts:Any'", "SyntaxError"],
    "env.variant=wrong_part:Any": ["wrong_part", "ModuleNotFoundError"],
}


@pytest.mark.parametrize("argument", WRONG)
def test_a_wrong_part_is_one_sentence(argument: str, place: Path, commands: Commands) -> None:
    run = place / "runs" / "mine"
    arguments = ["train", argument, *SMALL, f"run_dir={run}", "--config-dir=conf"]
    commands.refuse(arguments, *WRONG[argument])
    assert not run.exists()


def test_own_variants_of_the_working_folder_are_found_where_it_is_named(
    place: Path, commands: Commands
) -> None:
    (place / "fine_parts.py").write_text(
        "from reprl.envs import Effect\n"
        "class Band(Effect):\n"
        "    def draw(self, frame, objects):\n"
        "        frame[100:110] = 200\n"
    )
    commands.refuse(["preview", "variant=fine_parts:Band", "output=sheet.png"], "--config-dir=.")
    here = ["output=sheet.png", "--config-dir=."]
    assert main(["preview", "variant=fine_parts:Band", *here]) == 0
    assert (place / "sheet.png").exists()
    commands.refuse(["preview", "variant=wrong_parts:Copying", *here], "in place")
    sys.modules.pop("fine_parts", None)


def test_a_runs_own_folders_come_before_the_working_folder(place: Path) -> None:
    """A module of the same name where the command happens to be typed must not take over."""
    assert main(["list", "encoder"]) == 0
    assert str(place) not in sys.path
    assert name_folders([place / "conf"])[-2:] == [str(place / "conf"), str(place)]
    assert sys.path[-2:] == [str(place / "conf"), str(place)]  # behind all that is installed


def test_models_made_in_a_script_are_told_apart() -> None:
    from reprl.algorithms import PPO

    env = make_vec_env(n_envs=2)
    small = {"n_steps": 8, "batch_size": 8, "seed": 0, "device": "cpu"}
    plain = PPO("CnnPolicy", env, **small)
    full = PPO("CnnPolicy", env, **small, attention="conv", auxiliary="contrastive")
    games = [evaluate(model, "original", episodes=1).iloc[0] for model in (plain, full)]
    # SB3's own settings, which `algo=ppo_defaults` has
    assert games[0]["method"] == "ppo_defaults"
    assert games[1]["method"].startswith("ppo_defaults-nature-conv-")
    assert games[1]["auxiliary"] == "contrastive"
    assert games[1]["run"] != games[0]["run"]
