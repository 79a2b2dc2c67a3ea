"""kornia's own augmentations and any nn.Module as augmentations of a run."""

import os
import random
import signal
from pathlib import Path

import kornia.augmentation as K
import numpy as np
import pytest
import torch
from torch import nn

from reprl import trust
from reprl.augmentation import ModuleAugmentation
from reprl.augmentation.adapter import adaptable
from reprl.auxiliary.object_target import ObjectTarget
from reprl.cli import main
from reprl.components import agent_specs, build
from reprl.naming import spec_name
from reprl.runs.loop import Session
from tests.helpers import refuses
from tests.runs import same_runs, train

ANY = [
    {"_target_": "kornia.augmentation.RandomAffine", "degrees": 15.0, "p": 1.0},
    {"_target_": "kornia.augmentation.RandomElasticTransform", "p": 1.0},
    {"_target_": "kornia.augmentation.RandomBrightness", "brightness": [0.5, 1.5], "p": 1.0},
    {"_target_": "kornia.augmentation.RandomGaussianNoise", "std": 0.1, "p": 1.0},
    {"_target_": "kornia.augmentation.RandomErasing", "p": 1.0},
    {"_target_": "kornia.augmentation.RandomMotionBlur", "kernel_size": 3, "angle": 35.0,
     "direction": 0.5, "p": 1.0},
]  # fmt: skip
IDS = [spec["_target_"].rpartition(".")[2] for spec in ANY]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(batch=6, stack=4, size=24):
    """All frames of all samples alike."""
    one = torch.randint(0, 256, (size, size), generator=generator(9), dtype=torch.uint8)
    return one.expand(batch, stack, size, size).contiguous()


@pytest.mark.parametrize("spec", ANY, ids=IDS)
def test_one_draw_for_a_stack_from_our_stream_alone(spec):
    part = build("augmentation", spec)
    torch.manual_seed(1)
    np.random.seed(1)
    before, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = part(pictures(), generator()).observations
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numbers, np.random.get_state()[1])
    assert first.dtype == torch.uint8
    assert first.shape == (6, 4, 24, 24)
    assert (first == first[:, :1]).all()
    assert len({sample.numpy().tobytes() for sample in first}) > 3
    torch.rand(3)
    stream = generator()
    assert torch.equal(build("augmentation", spec)(pictures(), stream).observations, first)
    state = stream.get_state()  # all that a checkpoint keeps
    second = part(pictures(), stream).observations
    assert not torch.equal(second, first)
    resumed = torch.Generator()
    resumed.set_state(state)
    assert torch.equal(build("augmentation", spec)(pictures(), resumed).observations, second)


def test_the_numbers_are_kornias_own():
    spec = {"_target_": "kornia.augmentation.RandomAffine", "degrees": 15.0, "p": 1.0}
    ours = build("augmentation", spec)(pictures(), generator()).observations
    seed = int(torch.randint(2**62, (), generator=generator()))
    torch.manual_seed(seed)
    theirs = K.RandomAffine(15.0, p=1.0)(pictures().float() / 255)
    assert torch.equal(ours, (theirs * 255).round().clamp(0, 255).to(torch.uint8))
    # frame by frame, as other modules are called, is the same
    torch.manual_seed(seed)
    frame = K.RandomAffine(15.0, p=1.0)(pictures()[:, :1].float() / 255)
    assert torch.allclose(frame[:, 0], theirs[:, 0])


def test_colour_frames_go_through_three_channels_at_a_time():
    spec = {"_target_": "kornia.augmentation.ColorJiggle", "hue": 0.3, "p": 1.0}
    colours = torch.randint(0, 256, (5, 3, 24, 24), generator=generator(), dtype=torch.uint8)
    stacks = colours.repeat(1, 4, 1, 1)
    changed = ModuleAugmentation(module=spec, channels=3)(stacks, generator()).observations
    changed = changed.view(5, 4, 3, 24, 24)
    assert (changed == changed[:, :1]).all()
    assert not torch.equal(changed[:, 0], colours)
    with refuses("RandomHue"):
        build("augmentation", {"_target_": "kornia.augmentation.RandomHue", "p": 1.0})(
            pictures(), generator()
        )
    with refuses("channels=3", "4 channels"):
        ModuleAugmentation(module=spec, channels=3)(pictures(), generator())


def test_a_mirroring_says_where_and_is_refused_where_it_could_not():
    flip = build("augmentation", {"_target_": "kornia.augmentation.RandomHorizontalFlip"})
    view = flip(pictures(32), generator())
    assert flip.mirrors
    assert 4 < view.mirrored.sum() < 28
    expected = torch.where(view.mirrored[:, None, None, None], pictures(32).flip(-1), pictures(32))
    assert torch.equal(view.observations, expected)
    with refuses("Mirroring", "flip", "Compose"):
        build("augmentation", {"_target_": f"{__name__}:Mirroring"})


class Mirroring(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(K.RandomHorizontalFlip(p=0.5))


class Darker(nn.Module):
    """A user's own module, which draws as it likes."""

    def forward(self, images):
        each = torch.rand(len(images), 1, 1, 1)
        return images * each * float(np.random.uniform(0.9, 1)) * random.uniform(0.9, 1)


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(1, 1, 1)

    def forward(self, images):
        return self.layer(images)


class Broken(nn.Module):
    def forward(self, images):
        return images / 0


def test_a_module_of_the_users_own():
    module = {"_target_": f"{__name__}:Darker"}
    changed = build("augmentation", module)(pictures(), generator()).observations
    assert (changed == changed[:, :1]).all()
    assert (changed <= pictures()).all()
    assert torch.equal(changed, build("augmentation", module)(pictures(), generator()).observations)
    assert build("augmentation", module).moves  # nobody can know
    assert not ModuleAugmentation(module=module, moves=False).moves
    with refuses("Broken", "NaN"):
        build("augmentation", {"_target_": f"{__name__}:Broken"})(pictures(), generator())


def test_a_module_with_weights_is_refused_when_the_model_is_built():
    from reprl.augmentation.base import stateless

    with refuses("ModuleAugmentation", "module.layer.weight", "checkpoint"):
        stateless(build("augmentation", {"_target_": f"{__name__}:Weighted"}))
    stateless(build("augmentation", ANY[2]))  # kornia keeps its ranges in buffers


def test_what_moves_is_known_of_kornias_families():
    moving = {
        "RandomAffine": True,
        "RandomElasticTransform": True,
        "RandomBrightness": False,
        "RandomGaussianNoise": False,
        "RandomErasing": False,
        "RandomMotionBlur": False,
    }
    assert {n: build("augmentation", s).moves for n, s in zip(IDS, ANY, strict=True)} == moving
    blur = {"_target_": "kornia.filters.GaussianBlur2d", "kernel_size": [3, 3], "sigma": [1.0, 1.0]}
    assert not build("augmentation", blur).moves
    loss = ObjectTarget(augmentation=ANY[0])
    assert loss.views.spec == ANY[0]


def test_what_kornia_lets_through_is_refused():
    with refuses("p", "2", "0 to 1"):
        build("augmentation", {"_target_": "kornia.augmentation.RandomAffine", "degrees": 9.0,
                               "p": 2})  # fmt: skip
    with refuses("RandomAffine", "degres"):
        build("augmentation", {"_target_": "kornia.augmentation.RandomAffine", "degres": 9.0})
    larger = {"_target_": "kornia.augmentation.Resize", "size": [48, 48]}
    with refuses("Resize", "48", "24"):
        build("augmentation", larger)(pictures(), generator())
    with refuses("RandomMixUpV2", "mixes"):
        build("augmentation", {"_target_": "kornia.augmentation.RandomMixUpV2"})
    with refuses("RandomBlurr"):
        build("augmentation", {"_target_": "kornia.augmentation.RandomBlurr"})


@pytest.mark.parametrize(
    "path",
    ["kornia.feature.HardNet", "kornia.filters.dexined.DexiNed",
     "kornia.augmentation.RandomDissolving",
     "kornia.filters.StableDiffusionDissolving",
     "torch.nn.Linear", "stable_baselines3.common.torch_layers.NatureCNN", "subprocess.Popen",
     "reprl.encoders.Nature", "reprl.auxiliary.Contrastive"],
)  # fmt: skip
def test_a_strangers_folder_reaches_nothing_that_fetches_or_does_more(path):
    with trust.reading(), pytest.raises(ValueError, match="must be|not imported"):
        build("augmentation", {"_target_": path})
    assert not adaptable(nn.Linear)


def test_its_name_is_the_modules():
    assert spec_name("augmentation", ANY[0]) == "randomaffine"
    wrapped = {"_target_": "reprl.augmentation.ModuleAugmentation", "module": ANY[0]}
    assert spec_name("augmentation", wrapped) == "randomaffine"
    assert agent_specs(augmentation={**ANY[0], "use": "rad"}).augmentation == ANY[0]


@pytest.mark.slow
def test_a_run_with_kornia_resumes_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf" / "augmentation").mkdir(parents=True)
    (tmp_path / "conf" / "augmentation" / "affine.yaml").write_text(
        "_target_: kornia.augmentation.RandomAffine\ndegrees: 8.0\np: 0.7\nuse: rad\n"
    )
    more = ["augmentation=affine", f"--config-dir={tmp_path / 'conf'}"]
    more += ["eval.every=0", "total_steps=128", "checkpoint.every=1000"]
    assert train(tmp_path / "whole", *more) == 0
    count, take = [0], Session.take_numbers

    def third(session: Session) -> None:
        count[0] += 1
        if count[0] == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        take(session)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "take_numbers", third)
        assert train(tmp_path / "half", *more) == 143
    assert main(["resume", str(tmp_path / "half")]) == 0  # kornia needs no further word
    assert same_runs(tmp_path / "whole", tmp_path / "half")
