"""Temporal losses: true neighbours only, and never across an episode end."""

import math

import pytest
import torch
from torch import Tensor

from reprl.auxiliary import SpatioTemporal, TemporalContrastive


class Film:
    """A sequence (T, 2, 8, 8) with its neighbours; `ends` are the first steps of new episodes."""

    def __init__(self, frames: Tensor, ends: tuple[int, ...] = ()) -> None:
        self.frames = frames
        self.episode = torch.tensor([sum(t >= e for e in ends) for t in range(len(frames))])
        self.asked: list[int] = []

    def at(self, offset: int) -> tuple[Tensor, Tensor]:
        self.asked.append(offset)
        here = torch.arange(len(self.frames))
        there = here + offset
        inside = (there >= 0) & (there < len(here))
        there = torch.where(inside, there, here)
        valid = inside & (self.episode[there] == self.episode[here])
        return self.frames[torch.where(valid, there, here)], valid


def shuffled(film: Film, at):
    def mutated(offset):
        frames, valid = at(offset)
        places = valid.nonzero().flatten()
        frames = frames.clone()
        frames[places] = frames[places[torch.randperm(len(places))]]
        return frames, valid

    return mutated


@pytest.mark.parametrize(("anchor", "sign"), [("view", -1), ("batch", 1)])
def test_atc_value_by_hand_with_an_episode_end(unmasked, anchor, sign):
    loss = unmasked.prepare(TemporalContrastive(latent=5, hidden=7, offset=2, anchor=anchor))
    film = Film(unmasked.images(7), ends=(4,))
    batch = unmasked.batch(film.frames, at=film.at)
    value = loss(batch, unmasked.encoder)["temporal"].item()
    assert film.asked == [sign * 2]

    pairs = [(0, 2), (1, 3), (4, 6)]  # (2, 4) and (3, 5) cross the end
    c = loss.compressor(batch.output.features).detach()
    p = c + loss.forecast(c).detach()
    logits = torch.stack(
        [torch.stack([loss.bilinear.weight @ p[a] @ c[b] for _, b in pairs]) for a, _ in pairs]
    )
    expected = -sum(logits[i].log_softmax(0)[i] for i in range(3)).item() / 3
    assert value == pytest.approx(expected, rel=1e-5)


def test_ignoring_the_episode_end_changes_the_value(unmasked):
    loss = unmasked.prepare(TemporalContrastive(offset=2))
    frames = unmasked.images(7)
    values = []
    for ends in ((4,), ()):
        film = Film(frames, ends)
        values.append(loss(unmasked.batch(frames, at=film.at), unmasked.encoder)["temporal"].item())
    assert abs(values[0] - values[1]) > 1e-3


@pytest.mark.parametrize(
    "made",
    [
        TemporalContrastive,
        lambda: TemporalContrastive(anchor="batch"),
        SpatioTemporal,
    ],
    ids=["view", "batch", "spatiotemporal"],
)
def test_a_mirrored_training_batch_is_not_compared_with_unmirrored_neighbours(unmasked, made):
    loss = unmasked.prepare(made())
    film = Film(unmasked.images(6))
    straight = unmasked.batch(film.frames, at=film.at)
    mirrored = unmasked.batch(film.frames.flip(-1), at=film.at)
    values = [next(iter(loss(b, unmasked.encoder).values())).item() for b in (straight, mirrored)]
    assert abs(values[0] - values[1]) > 1e-4
    mirrored.augmented_from = film.frames
    assert next(iter(loss(mirrored, unmasked.encoder).values())).item() == values[0]


def test_a_batch_without_a_single_pair_costs_nothing(unmasked):
    for loss in (TemporalContrastive(), SpatioTemporal()):
        unmasked.prepare(loss)
        (term,) = loss(unmasked.batch(unmasked.images(3)), unmasked.encoder).values()
        term.backward()
        assert term.item() == 0.0


def test_atc_gradient_reaches_encoder_and_anchor_side_only(masked):
    loss = masked.prepare(TemporalContrastive(offset=1))
    film = Film(masked.images(6))
    reached = masked.reached(loss, masked.batch(film.frames, at=film.at))
    encoder = {f"encoder.{name}" for name, _ in masked.encoder.named_parameters()}
    heads = ("loss.compressor.", "loss.forecast.", "loss.bilinear.")
    assert encoder <= reached
    assert {name for name in reached if name not in encoder} == {
        f"loss.{name}" for name, _ in loss.named_parameters() if f"loss.{name}".startswith(heads)
    }


def test_atc_invalid_pairs_take_no_gradient(unmasked):
    loss = unmasked.prepare(TemporalContrastive(offset=2, anchor="batch"))
    film = Film(unmasked.images(7), ends=(4,))
    batch = unmasked.batch(film.frames, at=film.at)
    batch.output.features.retain_grad()
    loss(batch, unmasked.encoder)["temporal"].backward()
    touched = batch.output.features.grad.abs().sum(1) > 0
    assert touched.tolist() == [True, True, False, False, True, False, False]


def final(world, loss, frames: Tensor, *, mutate: bool, rate: float) -> float:
    """Where training on a film with two episode ends leads, as a share of chance."""
    film = Film(frames, ends=(13, 29))
    at = shuffled(film, film.at) if mutate else film.at
    values = world.train(world.prepare(loss), lambda: world.batch(frames, at=at), 80, rate=rate)
    pairs = film.at(loss.reach)[1].sum().item()
    return sum(values[-5:]) / 5 / math.log(pairs)


def test_atc_learns_true_neighbours_and_shuffled_ones_stay_at_chance(unmasked):
    frames = unmasked.images(40)
    assert final(unmasked, TemporalContrastive(), frames, mutate=False, rate=3e-3) < 0.5
    assert final(unmasked, TemporalContrastive(), frames, mutate=True, rate=3e-3) > 0.85


def test_stdim_learns_true_neighbours_and_shuffled_ones_stay_at_chance(unmasked):
    # Every frame has its own colour, everywhere: what a single cell can recognise.
    angle = 2.4 * torch.arange(40.0)
    colour = torch.stack([angle.cos(), angle.sin()], dim=1) * 127 + 127
    frames = colour.byte()[:, :, None, None].expand(40, 2, 8, 8).contiguous()
    # two cross-entropies, so chance is 2
    assert final(unmasked, SpatioTemporal(), frames, mutate=False, rate=3e-2) < 1.4
    assert final(unmasked, SpatioTemporal(), frames, mutate=True, rate=3e-2) > 1.8


@pytest.mark.parametrize(
    ("offset", "frames", "pairs"),  # (t, t - offset) inside an episode
    [(1, 4, [(1, 0), (3, 2)]), (2, 6, [(4, 2), (5, 3)])],
)
def test_stdim_value_by_hand_with_an_episode_end(unmasked, offset, frames, pairs):
    loss = unmasked.prepare(SpatioTemporal(offset=offset))
    film = Film(unmasked.images(frames), ends=(2,))
    batch = unmasked.batch(film.frames, at=film.at)
    value = loss(batch, unmasked.encoder)["spatiotemporal"].item()
    assert film.asked == [-offset]

    g = loss.whole(batch.output.features).detach()
    cells = batch.output.feature_map.detach()
    total = 0.0
    for y in range(8):
        for x in range(8):
            for query in (g, loss.place(cells[:, :, y, x]).detach()):
                for i, (t, _) in enumerate(pairs):
                    logits = torch.stack([query[t] @ cells[before, :, y, x] for _, before in pairs])
                    total -= logits.log_softmax(0)[i].item() / (2 * 64)
    assert value == pytest.approx(total, rel=1e-5)


def test_stdim_gradient_reaches_the_encoder_at_both_times(masked):
    loss = masked.prepare(SpatioTemporal())
    film = Film(masked.images(5))
    batch = masked.batch(film.frames, at=film.at)
    reached = masked.reached(loss, batch)
    assert {f"encoder.{name}" for name, _ in masked.encoder.named_parameters()} <= reached
    assert {name for name in reached if not name.startswith("encoder")} == {
        "loss.whole.weight",
        "loss.place.weight",
    }
    # Cut off at time t, gradient still comes from time t - 1.
    batch.output.features = batch.output.features.detach()
    batch.output.feature_map = batch.output.feature_map.detach()
    assert "encoder.trunk.weight" in masked.reached(loss, batch)


def test_reach_says_how_far_the_memory_must_look():
    assert TemporalContrastive(offset=5).reach == 5
    assert SpatioTemporal().reach == 1
    assert SpatioTemporal(offset=4).reach == 4
