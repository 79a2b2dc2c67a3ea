"""What every augmentation promises: one draw a sample, its own stream, uint8 in and out."""

import pytest
import torch

from reprl.components import build, names, resolve
from tests.helpers import refuses

# colour jitter wants RGB frames: test_new_kinds.py
KINDS = [n for n in names("augmentation") if n not in ("none", "color_jitter")]


def made(name, **changes):
    spec = {**resolve("augmentation", name), **changes}
    assert spec.pop("use") == "rad"
    return build("augmentation", spec)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(batch=8, size=84, seed=1):
    """Every sample and frame shows the same picture."""
    one = torch.randint(0, 256, (size, size), generator=generator(seed), dtype=torch.uint8)
    return one.expand(batch, 4, size, size).contiguous()


@pytest.mark.parametrize("name", KINDS)
def test_one_draw_for_the_frames_and_another_for_each_sample(name):
    view = made(name)(pictures(16), generator())
    frames = view.observations
    assert frames.dtype == torch.uint8
    assert frames.shape == (16, 4, 84, 84)
    alike = name not in ("moving_boxes", "speckle", "boxes_speckle")  # others in every frame
    assert (frames == frames[:, :1]).all() == alike
    assert len({sample.numpy().tobytes() for sample in frames}) > (1 if name == "flip" else 3)


@pytest.mark.parametrize("name", KINDS)
def test_draws_come_from_the_given_stream_only_and_the_input_stays(name):
    before, original = torch.get_rng_state(), pictures()
    observations = original.clone()
    first = made(name)(observations, generator(3)).observations
    torch.rand(5)
    second = made(name)(observations, generator(3)).observations
    assert torch.equal(first, second)
    assert not torch.equal(first, made(name)(observations, generator(5)).observations)
    assert torch.equal(observations, original)
    torch.set_rng_state(before)
    made(name)(observations, generator(3))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", KINDS)
def test_a_batch_of_one_and_of_another_size(name):
    assert made(name)(pictures(1, 36), generator()).observations.shape == (1, 4, 36, 36)


@pytest.mark.parametrize("name", [k for k in KINDS if "probability" in resolve("augmentation", k)])
def test_probability_says_how_many_samples_change(name):
    never = made(name, probability=0)(pictures(), generator()).observations
    assert torch.equal(never, pictures())
    some = made(name, probability=0.25)(pictures(400, 36), generator()).observations
    changed = (some != pictures(400, 36)).flatten(1).any(1).float().mean()
    whole = made(name, probability=1)(pictures(400, 36), generator()).observations
    ceiling = (whole != pictures(400, 36)).flatten(1).any(1).float().mean()
    assert changed / ceiling == pytest.approx(0.25, abs=0.09)


@pytest.mark.parametrize(
    ("name", "changes", "named"),
    [
        ("cutout", {"boxes": [None, 3]}, "boxes=[None, 3]"),
        ("cutout", {"sides": [[1, 2], 3]}, "sides=[[1, 2], 3]"),
        ("shift", {"pixel": 4}, "pixel"),
        ("shift_gray_boxes", {"steps": []}, "Compose"),
        ("shift_gray_boxes", {"steps": ["shfit"]}, "'shift'"),
        ("mixed", {"options": ["none"]}, "'none'"),
    ],
)
def test_wrong_options_are_refused_by_name(name, changes, named):
    with refuses(named):
        made(name, **changes)


@pytest.mark.parametrize(
    ("name", "changes"),
    [("shift", {"pixels": 36}), ("cutout", {"sides": [1, 37]}), ("blur", {"sigma": [1, 9]})],
)
def test_sizes_larger_than_the_picture_are_refused(name, changes):
    with refuses("36x36"):
        made(name, **changes)(pictures(2, 36), generator())
