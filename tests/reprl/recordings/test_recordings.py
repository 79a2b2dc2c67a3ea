"""Recordings: what was played comes back, whole or not at all, and a stranger's folder is safe."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from safetensors import numpy as packed

from reprl.algorithms.recorded_frames import RecordedFrames
from reprl.envs import make_vec_env
from reprl.recordings import RecordedPlay, storage
from reprl.recordings.minari import episodes, export_minari
from reprl.recordings.recorder import player_for, record
from reprl.recordings.storage import Facts, Writer
from tests.helpers import refuses

FACTS = Facts(
    game="breakout", variants=["original"], size=2, background=None, sticky=0.0, seed=0,
    player="random", n_envs=2, action_meanings=["NOOP", "FIRE", "RIGHT", "LEFT"],
)  # fmt: skip


def film(place: Path, steps: int = 6, chunk: int = 4) -> RecordedPlay:
    """Two environments; frame t of environment e is 10 e + t everywhere.

    Environment 0 ends an episode with step 2 (by its action), environment 1 with step 4 (cut).
    """
    with pytest.MonkeyPatch.context() as patch, Writer(place, FACTS) as writer:
        patch.setattr(storage, "CHUNK", chunk)
        for t in range(steps):
            ends = [1 if t == 2 else 0, 2 if t == 4 else 0]
            writer.add(
                frames=np.stack([np.full((2, 2), 10 * e + t) for e in range(2)]),
                actions=np.array([t % 4, (t + 1) % 4]),
                rewards=np.array([t, -t]),
                starts=np.array([t in (0, 3), t in (0, 5)]),
                ends=np.array(ends),
                finals=[np.full((2, 2), 200 + t) for e in ends if e],
            )
    return RecordedPlay.open(place)


def memory(recording: RecordedPlay, stack: int = 3, gap: int = 1, **more: Any) -> RecordedFrames:
    space = spaces.Box(0, 255, (stack, 2, 2), np.uint8)
    made = RecordedFrames(1, space, spaces.Discrete(4), "cpu", stream_seed=0, n_envs=2)
    made.gap, made.history = gap, 3
    for name, value in more.items():
        setattr(made, name, value)
    made.load(recording)
    return made


def test_what_is_written_is_read_across_chunks(tmp_path: Path) -> None:
    found = film(tmp_path / "film")
    assert [chunk.steps for chunk in found.chunks] == [4, 2]
    assert found.frames == 12
    assert sorted(p.name for p in found.path.iterdir()) == [
        *("000000.frames", "000001.frames", "recording.json")
    ]
    arrays = found.arrays()
    assert arrays["frames"][:, 1, 0, 0].tolist() == [10, 11, 12, 13, 14, 15]
    assert arrays["ends"].tolist() == [[0, 0], [0, 0], [1, 0], [0, 0], [0, 2], [0, 0]]
    assert arrays["finals"][:, 0, 0].tolist() == [202, 204]
    assert film(tmp_path / "again").identity == found.identity
    assert film(tmp_path / "other", steps=5).identity != found.identity


def test_a_recording_that_fails_leaves_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "film", FACTS)
    writer.__enter__()
    assert writer.draft.is_dir()
    writer.__exit__(KeyboardInterrupt, None, None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("gap", [1, 2])
def test_stacks_are_black_before_their_episode(tmp_path: Path, gap: int) -> None:
    made = memory(film(tmp_path / "film"), gap=gap)

    def naive(t: int, e: int) -> list[int]:
        first = max(s for s in ((0, 3), (0, 5))[e] if s <= t)
        return [10 * e + s if (s := t - gap * k) >= first else 0 for k in (2, 1, 0)]

    place = np.arange(12)
    stacks = made._observations(place)[:, :, 0, 0]
    assert stacks.tolist() == [naive(t, e) for t in range(6) for e in range(2)]


def test_neighbours_stay_in_their_episode(tmp_path: Path) -> None:
    made = memory(film(tmp_path / "film"))
    place = np.arange(12)  # time * 2 + environment
    later, valid = made.at(place, 1)
    starts = {(3, 0), (5, 1)}
    expected = [t + 1 < 6 and (t + 1, e) not in starts for t in range(6) for e in range(2)]
    assert valid.tolist() == expected
    newest = later[:, -1, 0, 0]
    for row, ok in enumerate(expected):
        t, e = row // 2, row % 2
        assert newest[row] == 10 * e + (t + 1 if ok else t)
    actions, valid = made.actions_at(place, -1)
    expected = [t > 0 and (t, e) not in starts for t in range(6) for e in range(2)]
    assert valid.tolist() == expected
    assert [a for a, ok in zip(actions.tolist(), expected, strict=True) if ok] == [
        (t - 1 + e) % 4 for t in range(6) for e in range(2) if expected[2 * t + e]
    ]
    fields = made.fields(next(made.minibatches(8)))
    assert set(fields) == {"episode_starts", "env_index", "time_index", "at", "actions_at"}


def test_draws_go_on_where_they_were_and_want_their_recording(tmp_path: Path) -> None:
    found = film(tmp_path / "film")
    made = memory(found, updates=3)
    list(made.minibatches(5))
    state = made.state()
    expected = [b.place.tolist() for b in made.minibatches(5)]
    again = memory(found, updates=3)
    again.load_state(state)
    assert [b.place.tolist() for b in again.minibatches(5)] == expected
    other = RecordedFrames(1, spaces.Box(0, 255, (3, 2, 2), np.uint8), None, stream_seed=0)
    other.load_state(state)
    with refuses("not the recording", found.identity):
        other.load(film(tmp_path / "other", steps=5))


def test_damage_is_one_sentence(tmp_path: Path) -> None:
    with refuses("no recording", "recording.json"):
        RecordedPlay.open(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with refuses("no recording", "reprl record player="):
        RecordedPlay.open(tmp_path)
    path = film(tmp_path / "film").path
    record_file, chunk = path / "recording.json", path / "000000.frames"
    text, data = record_file.read_text(), chunk.read_bytes()
    for broken in ("", "[]", "{}", text.replace('"frames": 12', '"frames": 13')):
        record_file.write_text(broken)
        with refuses("recording.json is damaged"):
            RecordedPlay.open(path)
    record_file.write_text(text.replace("000000.frames", "../secret.frames"))
    with refuses("recording.json is damaged"):
        RecordedPlay.open(path)
    record_file.write_text(text.replace('"format": 1', '"format": 2'))
    with refuses("format 2"):
        RecordedPlay.open(path)
    record_file.write_text(text)
    chunk.write_bytes(data[:-1] + b"x")
    with refuses("000000.frames is damaged"):
        RecordedPlay.open(path).arrays()
    chunk.unlink()
    with refuses("000000.frames cannot be read"):
        RecordedPlay.open(path).arrays()


def test_a_chunk_is_not_unpacked_beyond_what_it_says(tmp_path: Path) -> None:
    path = film(tmp_path / "film").path
    bomb = zlib.compress(b"\0" * 50_000_000)
    (path / "000000.frames").write_bytes(bomb)
    record_text = json.loads((path / "recording.json").read_text())
    record_text["chunks"][0] |= {"sha256": hashlib.sha256(bomb).hexdigest(), "bytes": len(bomb)}
    (path / "recording.json").write_text(json.dumps(record_text))
    with refuses("000000.frames", "bytes it should"):
        RecordedPlay.open(path).arrays()


def test_arrays_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = film(tmp_path / "film").path
    record_text = json.loads((path / "recording.json").read_text())
    entry = record_text["chunks"][0]
    good = packed.load(zlib.decompress((path / "000000.frames").read_bytes()))
    for name, value in (
        ("frames", good["frames"][:, :1]),
        ("rewards", good["rewards"].astype(np.float64)),
        ("actions", good["actions"] + 4),
    ):
        inflated = packed.save(good | {name: np.ascontiguousarray(value)})
        data = zlib.compress(inflated)
        (path / "000000.frames").write_bytes(data)
        entry |= {"bytes": len(data), "inflated": len(inflated)}
        entry["sha256"] = hashlib.sha256(data).hexdigest()
        (path / "recording.json").write_text(json.dumps(record_text))
        with refuses("000000.frames is damaged", "actions" if name == "actions" else name):
            RecordedPlay.open(path).arrays()


def test_episodes_for_minari_are_whole(tmp_path: Path) -> None:
    found = list(episodes(film(tmp_path / "film")))
    assert [e["observations"][:, 0, 0].tolist() for e in found] == [
        *([0, 1, 2, 202], [10, 11, 12, 13, 14, 204])
    ]
    assert [e["actions"].tolist() for e in found] == [[0, 1, 2], [1, 2, 3, 0, 1]]
    assert [e["terminations"].tolist() for e in found] == [[False, False, True], [False] * 5]
    assert found[1]["truncations"].tolist() == [False] * 4 + [True]


def test_minari_reads_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    recording = film(tmp_path / "film")
    place, count = export_minari(recording, "reprl/film-v0")
    assert count == 2
    assert place.is_dir()
    dataset = minari.load_dataset("reprl/film-v0")
    assert dataset.total_episodes == 2
    for ours, theirs in zip(episodes(recording), dataset.iterate_episodes(), strict=True):
        for name in ("observations", "actions", "rewards", "terminations", "truncations"):
            assert np.array_equal(getattr(theirs, name), ours[name]), name
    assert dataset.action_space == spaces.Discrete(4)
    with refuses("minari=reprl/film-v0 is there already"):
        export_minari(recording, "reprl/film-v0")


def test_minari_is_asked_for_by_a_good_name(tmp_path: Path) -> None:
    with refuses("minari=film", "breakout-random-v0"):
        export_minari(film(tmp_path / "film"), "film")


def test_a_real_game_is_recorded_frame_by_frame(tmp_path: Path) -> None:
    """The recording's stacks are the environment's own; played again it is the same."""

    def env() -> Any:
        return make_vec_env("green_lines", 2, seed=3, size=36, stack=3, gap=2)

    first = record(env(), tmp_path / "a", player="random", frames=120, seed=5)
    second = record(env(), tmp_path / "b", player="random", frames=120, seed=5)
    assert first.identity == second.identity
    assert first.facts.variants == ["green_lines"]
    made = RecordedFrames(1, env().observation_space, spaces.Discrete(4), stream_seed=0)
    made.gap = 2
    made.load(first)
    played, act = env(), None
    observations = played.reset()
    act = player_for("random", played, 5)
    for t in range(60):
        stacks = made._observations(np.array([2 * t, 2 * t + 1]))
        assert torch.equal(stacks, torch.from_numpy(observations)), t
        observations, *_ = played.step(act(observations, np.zeros(2, bool)))
