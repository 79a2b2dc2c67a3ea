"""Hard masks: open or shut forward, soft backward, noise from a stream of their own."""

import copy

import pytest
import torch

from reprl.components import resolve
from reprl.encoders import Nature
from reprl.encoders.hard import Hard, build_hard, streams
from tests.helpers import refuses, space


def masked(kind, **changes):
    torch.manual_seed(0)
    return Nature(space(), attention={**resolve("attention", kind), **changes})


def soft(*values):
    return torch.tensor(values).view(1, 1, 1, -1).requires_grad_()


def test_top_k_keeps_the_largest_and_all_learn():
    mask = soft(0.1, 0.7, 0.3, 0.9, 0.2, 0.5)
    gate = Hard(by="top_k", keep=1 / 3)(mask)
    assert gate.flatten().tolist() == [0, 1, 0, 1, 0, 0]
    (gate * torch.arange(6.0)).sum().backward()
    assert mask.grad.flatten().tolist() == [0, 1, 2, 3, 4, 5]  # the soft mask's own


def test_top_k_never_takes_a_cell_of_weight_0_and_at_least_one_other():
    assert Hard(by="top_k", keep=0.5)(soft(0.0, 0.0, 0.0, 0.2)).flatten().tolist() == [0, 0, 0, 1]
    assert Hard(by="top_k", keep=0.01)(soft(0.1, 0.2)).flatten().tolist() == [0, 1]
    assert Hard(by="top_k", keep=0.5)(soft(0.5, 0.5, 0.5, 0.5)).sum() == 2  # ties are no excuse


def test_gumbel_opens_a_cell_as_often_as_its_weight_says():
    hard = Hard(by="gumbel")
    weights = torch.tensor([0.05, 0.5, 0.9]).expand(20_000, 1, 1, 3)
    gate = hard(weights)
    assert set(gate.unique().tolist()) == {0, 1}
    assert gate.mean(dim=(0, 1, 2)).tolist() == pytest.approx([0.05, 0.5, 0.9], abs=0.01)


def test_gumbels_gradient_is_the_relaxed_masks():
    hard, mask = Hard(by="gumbel", temperature=0.5), soft(0.3, 0.6)
    state = hard.stream.clone()
    hard(mask).sum().backward()
    generator = torch.Generator()
    generator.set_state(state)
    noise = torch.logit(torch.rand(1, 1, 1, 2, generator=generator))
    other = soft(0.3, 0.6)
    torch.sigmoid((torch.logit(other) + noise) / 0.5).sum().backward()
    assert torch.allclose(mask.grad, other.grad, rtol=1e-4)
    assert mask.grad.min() > 0


def test_gumbel_draws_in_training_only_and_from_its_own_stream():
    hard = Hard(by="gumbel")
    mask, outside = torch.rand(4, 1, 5, 5), torch.get_rng_state()
    first, second = hard(mask), hard(mask)
    assert not torch.equal(first, second)
    state = hard.stream.clone()
    hard.eval()
    assert torch.equal(hard(mask), (mask > 0.5).float())
    assert torch.equal(hard.stream, state)
    assert torch.equal(torch.get_rng_state(), outside)


def test_its_stream_depends_on_the_seed_and_travels_with_the_parameters():
    def drawn(seed):
        torch.manual_seed(seed)
        torch.rand(seed)  # what was drawn before does not matter
        return Hard(by="gumbel")

    assert torch.equal(drawn(1).stream, drawn(1).stream)
    assert not torch.equal(drawn(1).stream, drawn(2).stream)
    first, mask = drawn(1), torch.rand(2, 1, 5, 5)
    first(mask)
    other = drawn(2)
    other.load_state_dict(first.state_dict())
    assert torch.equal(first(mask), other(mask))
    model = masked("gumbel")
    (stream,) = streams(model)
    assert any(value is stream for value in dict(model.named_buffers()).values())
    assert streams(masked("top_k")) == []


@pytest.mark.parametrize("kind", ["top_k", "gumbel"])
def test_what_is_shut_is_black_and_the_report_stays_soft(kind):
    model = masked(kind).eval()
    images = torch.rand(2, 4, 84, 84)
    output = model.encode(images)
    gate, attention = model.attention(images, None)
    assert set(gate.unique().tolist()) <= {0, 1}
    assert len(attention.unique()) > 2
    assert torch.equal(output.attention, attention)
    seen = model.visibility(attention)
    assert torch.equal(seen, model.attention.over_image(gate))
    hidden = torch.where(seen.expand_as(images) == 0, torch.rand_like(images), images)
    assert torch.equal(model.cnn(images * seen), model.cnn(hidden * seen))
    if kind == "top_k":
        assert gate.sum(dim=(1, 2, 3)).tolist() == [44, 44]  # a tenth of 441


@pytest.mark.parametrize("kind", ["top_k", "gumbel", "madi"])
def test_a_mask_begins_half_open(kind):
    attention = masked(kind).encode(torch.rand(2, 4, 84, 84)).attention
    assert attention.mean().item() == pytest.approx(0.5, abs=0.01)
    assert attention.std() < 0.01
    other = masked(kind, opening=0.9).encode(torch.rand(2, 4, 84, 84)).attention
    assert other.mean().item() == pytest.approx(0.9, abs=0.01)


def test_a_copy_is_a_copy():
    model = masked("gumbel")
    other = copy.deepcopy(model)
    images = torch.rand(2, 4, 84, 84)
    assert torch.equal(model(images), other(images))


@pytest.mark.parametrize(
    ("hard", "names"),
    [
        ("topk", ["'top_k'"]),
        ({"by": "gumble"}, ["'gumbel'"]),
        ({"keep": 0.1}, ["attention.hard=", "top_k, gumbel"]),
        ({"by": "top_k", "kep": 0.1}, ["'keep'"]),
        ({"by": "top_k", "keep": 0}, ["attention.hard.keep=0"]),
        ({"by": "gumbel", "temperature": 0}, ["attention.hard.temperature=0"]),
        (3, ["attention.hard=3"]),
    ],
)
def test_wrong_options_are_refused(hard, names):
    with refuses(*names):
        masked("conv", hard=hard)


def test_no_hard_mask_and_no_unbounded_one():
    assert build_hard(None) is None is build_hard("none")
    with refuses("attention.hard=top_k"):
        masked("softplus", hard="top_k")
