"""Sequences by hand: places among padding, one draw for a sequence, neighbours within a game."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.buffers import RecurrentRolloutBuffer
from sb3_contrib.common.recurrent.type_aliases import RNNStates

from reprl.algorithms.sequence_buffer import SequenceMemory
from reprl.augmentation import Flip
from reprl.sequences import Sequences, places
from tests.reprl.augmentation.test_augmentation import KINDS, generator, made, pictures


def sequences(*lengths: int) -> Sequences:
    """Sequences of so many steps."""
    begins = np.concatenate([np.arange(n) == 0 for n in lengths])
    rows, length = places(begins)
    none = torch.zeros(1, len(lengths), 2)
    starts = torch.zeros(len(lengths) * length)
    return Sequences(torch.from_numpy(rows), length, starts, (none, none), (none, none))


def test_places_by_hand() -> None:
    begins = np.array([False, False, False, True, True, False])  # three samples, one, two
    rows, length = places(begins)
    assert length == 3
    assert rows.tolist() == [0, 1, 2, 3, 6, 7]
    assert begins.tolist() == [False, False, False, True, True, False]  # left alone
    layout = sequences(3, 1, 2)
    assert (layout.count, layout.owner.tolist()) == (3, [0, 0, 0, 1, 2, 2])
    samples = torch.tensor([10.0, 20, 30, 40, 50, 60])
    padded = layout.pad(samples)
    assert padded.tolist() == [10, 20, 30, 40, 0, 0, 50, 60, 0]
    assert torch.equal(layout.unpad(padded), samples)


@pytest.mark.parametrize("name", KINDS)
def test_one_draw_for_all_steps_of_a_sequence(name: str) -> None:
    layout, drawn = sequences(3, 1, 4, 2, 2, 2, 2, 2), generator()
    seen = pictures(18)  # every step shows the same
    view = layout.view(made(name), seen, drawn).observations
    groups = [view[layout.owner == number] for number in range(layout.count)]
    assert all((group == group[:1]).all() for group in groups)
    assert len({group[0].numpy().tobytes() for group in groups}) > 1
    alone = generator()
    made(name)(seen[: layout.count], alone)
    assert torch.equal(drawn.get_state(), alone.get_state())  # as much as one step draws


@pytest.mark.parametrize("name", KINDS)
def test_a_step_depends_on_no_other_steps_picture(name: str) -> None:
    layout, seen = sequences(3, 2), pictures(5)
    others = seen.clone()
    others[[0, 1, 3]] = 255 - others[[0, 1, 3]]
    one, two = (layout.view(made(name), each, generator()).observations for each in (seen, others))
    assert torch.equal(one[[2, 4]], two[[2, 4]])


def test_a_sequence_is_mirrored_as_a_whole() -> None:
    layout = sequences(*[2] * 16)
    view = layout.view(Flip(probability=0.5), pictures(32), generator())
    assert view.mirrored is not None
    pairs = view.mirrored.view(16, 2)
    assert (pairs[:, 0] == pairs[:, 1]).all()
    assert 0 < int(pairs[:, 0].sum()) < 16
    flipped = view.observations[view.mirrored]
    assert (flipped == pictures(1).flip(-1)).all()


STARTS = {(0, 0), (0, 1), (2, 0), (7, 1)}  # (time, environment); the rollout is times 5 to 9


def filled() -> SequenceMemory:
    """Two rollouts of 5 steps in 2 environments; an observation is (environment, time)."""
    space = spaces.Box(0, 255, (2,), np.uint8)
    memory = SequenceMemory(5, space, spaces.Discrete(9), (5, 1, 2, 3), "cpu", n_envs=2)
    memory.history, memory.wants_actions = 2, True
    for first in (0, 5):
        memory.reset()
        for time in range(first, first + 5):
            begun = np.array([(time, env) in STARTS for env in range(2)])
            shown = np.array([[env, time] for env in range(2)], np.uint8)
            state = torch.arange(6.0).view(1, 2, 3) + 100 * time
            states = RNNStates((state, -state), (state + 0.5, -state - 0.5))
            actions = np.array([[time % 9], [(time + 4) % 9]])
            values = torch.tensor([time, -time], dtype=torch.float32)
            zeros = np.zeros(2, np.float32)
            memory.add(shown, actions, zeros, begun, values, values / 10, lstm_states=states)
        last = np.array([[env, first + 5] for env in range(2)], np.uint8)
        memory.finish(last, np.array([False, False]))
    return memory


@pytest.mark.parametrize("size", [10, 4, 3, 7])
def test_minibatches_are_sb3_contribs_without_their_padding(size: int) -> None:
    ours, theirs = filled(), filled()
    theirs.__class__ = RecurrentRolloutBuffer  # type: ignore[assignment]
    np.random.seed(size)
    found = list(ours.minibatches(size))
    np.random.seed(size)
    wanted = list(theirs.get(size))
    assert len(found) == len(wanted)
    for mine, other in zip(found, wanted, strict=True):
        layout, valid = mine.sequences, other.mask > 0
        assert layout is not None
        assert torch.equal(layout.pad(torch.ones(len(mine.place))) > 0, valid)
        assert torch.equal(layout.pad(mine.observations), other.observations)
        for name in ("actions", "old_values", "old_log_prob", "advantages", "returns"):
            assert torch.equal(getattr(mine, name), getattr(other, name)[valid]), name
        assert torch.equal(layout.starts, other.episode_starts)
        for mine_states, other_states in zip(
            (layout.actor, layout.critic), other.lstm_states, strict=True
        ):
            for a, b in zip(mine_states, other_states, strict=True):
                assert torch.equal(a, b)
                assert a.is_contiguous()


def test_neighbours_are_those_of_the_same_game() -> None:
    """In environment 1 a game begins at time 7; times 3 and 4 are remembered, 10 follows."""
    memory = filled()
    rows = [row for batch in memory.minibatches(4) for row in batch.place]
    assert sorted(rows) == list(range(10))
    places_of = np.array([0, 1, 4, 5, 6, 7, 9])  # environment * 5 + time - 5
    earlier, valid = memory.at(places_of, -1)
    assert valid.tolist() == [True, True, True, True, True, False, True]
    assert earlier.tolist() == [[0, 4], [0, 5], [0, 8], [1, 4], [1, 5], [1, 7], [1, 8]]
    later, valid = memory.at(places_of, 2)
    assert valid.tolist() == [True, True, False, False, False, True, False]
    assert later.tolist() == [[0, 7], [0, 8], [0, 9], [1, 5], [1, 6], [1, 9], [1, 9]]
    actions, valid = memory.actions_at(places_of, -1)
    assert actions[valid].tolist() == [4, 5, 8, (4 + 4) % 9, (5 + 4) % 9, (8 + 4) % 9]
    begun = memory.starts_of(np.array([6, 7, 8]))
    assert begun.tolist() == [False, True, False]
