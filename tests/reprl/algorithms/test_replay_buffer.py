"""The replay buffer: SB3's samples on the same indices, each frame once, in chunks on disk."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer

from reprl.algorithms.replay_buffer import (
    BLOCK,
    CountedReplay,
    FrameNStepReplay,
    FrameReplay,
    FrameRows,
    bytes_needed,
    make_replay,
)
from reprl.checkpoint.chunks import FOLDER, Written, verify_chunks
from reprl.checkpoint.files import Damaged
from reprl.envs import make_vec_env
from reprl.envs.observation import FrameStack
from tests.helpers import refuses

ACTIONS = spaces.Discrete(4)


def played(steps: int, feed: Any, **settings: Any) -> Any:
    """Feed buffers with a game of random play; the observation space of it."""
    small: dict[str, Any] = {"n_envs": 3, "seed": 2, "size": 36, "max_frames": 300} | settings
    env = make_vec_env(**small)
    buffers = feed(env.observation_space, getattr(env, "gap", 1))
    rng = np.random.default_rng(0)
    last = env.reset()
    for _ in range(steps):
        actions = rng.integers(4, size=3)
        seen, rewards, dones, infos = env.step(actions)
        following = seen.copy()
        for row in np.flatnonzero(dones):
            following[row] = infos[row]["terminal_observation"]
        for buffer in buffers:
            buffer.add(last, following, actions, rewards, dones, infos)
        last = seen
    return buffers


def equal(ours: Any, theirs: Any) -> bool:
    pairs = zip(ours, theirs, strict=True)
    return all(a is b is None or (torch.equal(a, b) and a.dtype == b.dtype) for a, b in pairs)


def drawn(buffer: Any, seed: int) -> Any:
    np.random.seed(seed)
    return buffer.sample(64)


CASES: list[dict[str, Any]] = [
    {},
    {"stack": 3, "gap": 2},
    {"stack": 1},
    {"gray": False, "stack": 2},
    {"background": 0.5},
]


@pytest.mark.parametrize("settings", CASES, ids=str)
@pytest.mark.parametrize("steps", [40, 130])
def test_samples_are_sb3s_on_the_same_indices(settings: dict[str, Any], steps: int) -> None:
    def feed(space: Any, gap: int) -> list[Any]:
        common: Any = {"n_envs": 3, "device": "cpu"}
        several: Any = {"n_steps": 3, "gamma": 0.9, **common}
        return [
            ReplayBuffer(180, space, ACTIONS, **common),
            FrameReplay(180, space, ACTIONS, gap=gap, **common),
            NStepReplayBuffer(180, space, ACTIONS, **several),
            FrameNStepReplay(180, space, ACTIONS, gap=gap, **several),
        ]

    theirs, ours, theirs_n, ours_n = played(steps, feed, **settings)
    for seed in range(4):
        assert equal(drawn(ours, seed), drawn(theirs, seed))
        assert equal(drawn(ours_n, seed), drawn(theirs_n, seed))
    assert ours.full == (steps > 60)


def test_an_environment_that_repeats_nothing_is_kept_exactly() -> None:
    space = spaces.Box(0, 255, (4, 36, 36), np.uint8)
    theirs = ReplayBuffer(20, space, ACTIONS, n_envs=2, device="cpu")
    ours = FrameReplay(20, space, ACTIONS, n_envs=2, device="cpu")
    rng = np.random.default_rng(3)
    for _ in range(35):
        now, then = rng.integers(256, size=(2, 2, 4, 36, 36), dtype=np.uint8)
        for buffer in (theirs, ours):
            buffer.add(now, then, np.zeros(2), np.ones(2), np.zeros(2), [{}, {}])
    assert equal(drawn(ours, 0), drawn(theirs, 0))


def test_frames_are_kept_once_and_given_back() -> None:
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    ours = FrameReplay(3 * BLOCK, space, ACTIONS, n_envs=1, device="cpu")
    stack = np.zeros((1, 4, 84, 84), np.uint8)
    most = 0
    for step in range(8 * BLOCK):
        following = np.roll(stack, -1, axis=1)
        following[0, -1] = 1 + step % 255
        ours.add(stack, following, np.zeros(1), np.ones(1), np.zeros(1), [{}])
        stack = following
        most = max(most, ours.frames.nbytes)
    frame = 84 * 84
    assert most <= (3 + 2) * BLOCK * frame  # what the rows name, and the blocks at both ends
    # A million steps: a frame and its index each, and the game's first frames besides.
    assert ours._index_bytes < 120
    assert 1_000_000 * (frame + ours._index_bytes) + 2 * BLOCK * frame < 7.2e9
    assert bytes_needed(1_000_000, space) < 7.2e9
    assert ReplayBuffer(100, space, ACTIONS, device="cpu").observations.nbytes == 100 * 4 * frame


def filled(kind: type[FrameRows] | type[CountedReplay], steps: int) -> Any:
    if kind is CountedReplay:
        space = spaces.Box(-1, 1, (5,), np.float32)
        buffer: Any = CountedReplay(40, space, ACTIONS, n_envs=2, device="cpu")
        more(buffer, steps)
        return buffer
    return played(steps, lambda s, gap: [make_replay(120, s, ACTIONS, **COMMON, gap=gap)])[0]


COMMON: dict[str, Any] = {"device": "cpu", "n_envs": 3, "n_steps": 1, "gamma": 0.9}


def more(buffer: Any, steps: int) -> None:
    for step in range(steps):
        now, then = np.full((2, 2, 5), 0.01 * buffer.added + 0.001 * step, np.float32)
        buffer.add(now, then + 1, np.ones(2), np.full(2, step), np.zeros(2), [{}, {}])


def fresh(buffer: Any) -> Any:
    if isinstance(buffer, FrameRows):
        return make_replay(120, buffer.observation_space, ACTIONS, **COMMON, gap=buffer.gap)
    return CountedReplay(40, buffer.observation_space, ACTIONS, n_envs=2, device="cpu")


@pytest.mark.parametrize("steps", [15, 70])
@pytest.mark.parametrize("kind", [FrameReplay, CountedReplay])
def test_chunks_come_back_whole(kind: Any, steps: int, tmp_path: Path) -> None:
    buffer = filled(kind, steps)
    record = Written().append(tmp_path, buffer)
    again = fresh(buffer)
    Written().load(tmp_path, record, again)
    assert (again.added, again.pos, again.full) == (buffer.added, buffer.pos, buffer.full)
    for seed in range(3):
        assert equal(drawn(again, seed), drawn(buffer, seed))


def test_only_new_rows_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprl.checkpoint.chunks.LARGEST_CHUNK", 1000)
    buffer, written = filled(CountedReplay, 12), Written()
    first = written.append(tmp_path, buffer)
    files = {file.name: file.stat().st_mtime_ns for file in (tmp_path / FOLDER).iterdir()}
    assert len(files) > 1
    more(buffer, 3)
    second = written.append(tmp_path, buffer)
    assert second["chunks"][: len(first["chunks"])] == first["chunks"]
    assert [c["end"] for c in second["chunks"]][-1] == buffer.added == 15
    for name, time in files.items():
        assert (tmp_path / FOLDER / name).stat().st_mtime_ns == time
    more(buffer, 17)  # rows beyond the buffer's size are named no longer
    third = written.append(tmp_path, buffer)
    assert third["chunks"][0]["end"] > buffer.oldest == 12
    again = fresh(buffer)
    Written().load(tmp_path, third, again)
    assert equal(drawn(again, 0), drawn(buffer, 0))
    elsewhere = Written().append(tmp_path, again)
    assert elsewhere["chunks"][0]["begin"] == again.oldest  # another writer knows of nothing


def test_a_damaged_chunk_is_said(tmp_path: Path) -> None:
    buffer = filled(CountedReplay, 12)
    record = Written().append(tmp_path, buffer)
    chunk = tmp_path / FOLDER / record["chunks"][0]["file"]
    assert set(verify_chunks(tmp_path, record).values()) == {"ok"}
    chunk.write_bytes(chunk.read_bytes()[:-3])
    with pytest.raises(Damaged, match="checksum"):
        Written().load(tmp_path, record, fresh(buffer))
    assert "checksum" in next(iter(verify_chunks(tmp_path, record).values()))
    chunk.unlink()
    with pytest.raises(Damaged, match="missing"):
        Written().load(tmp_path, record, fresh(buffer))
    record["chunks"][0]["file"] = "../../etc/passwd"
    with pytest.raises(Damaged, match="no chunk"):
        Written().load(tmp_path, record, fresh(buffer))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / FOLDER).symlink_to(tmp_path)
    with refuses("is a link"):
        Written().append(tmp_path / "b", buffer)


def test_colour_counts_its_channels() -> None:
    assert bytes_needed(10, FrameStack((12, 84, 84), 3)) == 10 * (3 * 84 * 84 + 100)
