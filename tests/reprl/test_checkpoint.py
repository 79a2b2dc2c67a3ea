"""Checkpoints: exact, atomic, checked; every kind of damage has its sentence."""

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from reprl import checkpoint
from reprl.checkpoint.files import drop_beyond, recover
from tests.helpers import refuses


@dataclass
class Captured:
    parameters: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Tensor]
    meta: dict[str, Any]


@dataclass
class FakeModel:
    """What a checkpoint needs of a model, with every awkward kind of tensor."""

    num_timesteps: int = 1024
    width: int = 3
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def capture(self) -> Captured:
        generator = torch.Generator().manual_seed(self.num_timesteps)
        weight = torch.randn(4, self.width, 5, 5, generator=generator)
        return Captured(
            parameters={"weight": weight.to(memory_format=torch.channels_last)},
            optimizer={"m": torch.tensor([float("nan"), float("inf"), -0.0])},
            state={"obs": torch.arange(24, dtype=torch.uint8).view(2, 3, 4).transpose(1, 2)},
            meta={
                "algorithm": "fake",
                "rate": 0.1 + 0.2,
                "counters": {"num_timesteps": self.num_timesteps},
                "log": {},
            },
        )


def write(folder: Path, *steps: int, **options: Any) -> list[Path]:
    return [checkpoint.save(FakeModel(s), folder, **options) for s in steps]  # type: ignore[arg-type]


def test_what_is_read_is_what_was_written_down_to_bits_and_strides(tmp_path: Path) -> None:
    [path] = write(tmp_path, 1024, loop={"best": 1 / 3})
    assert path == tmp_path / "checkpoints" / "000000001024"
    truth, stored = FakeModel(1024).capture(), checkpoint.read(tmp_path)
    for part in checkpoint.SECTIONS:
        for name, tensor in getattr(truth, part).items():
            back = getattr(stored, part)[name]
            assert back.stride() == tensor.stride()
            assert back.dtype == tensor.dtype
            assert back.contiguous().numpy().tobytes() == tensor.contiguous().numpy().tobytes()
    assert stored.meta == truth.meta
    assert stored.loop == {"best": 1 / 3}


def test_two_saves_of_one_state_are_byte_identical(tmp_path: Path) -> None:
    [a], [b] = write(tmp_path / "a", 7), write(tmp_path / "b", 7)
    for file in checkpoint.FILES:
        assert (a / file).read_bytes() == (b / file).read_bytes()


def test_the_newest_and_the_protected_are_kept(tmp_path: Path) -> None:
    write(tmp_path, 1, 2, 3, 4, 5, keep=2, protect=(2,))
    assert checkpoint.steps(tmp_path) == [2, 4, 5]
    assert checkpoint.read(tmp_path).step == 5
    assert checkpoint.read(tmp_path, step=2).step == 2
    assert checkpoint.read(tmp_path / "checkpoints" / "000000000004").step == 4


@pytest.mark.parametrize("file", [*checkpoint.FILES, "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_damaged_newest_falls_back_loudly(
    tmp_path: Path, file: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, 10, 20)[1] / file
    data = path.read_bytes()
    if damage == "flip":
        path.write_bytes(data[:-5] + bytes([data[-5] ^ 1]) + data[-4:])
    elif damage == "truncate":
        path.write_bytes(data[: len(data) // 2])
    else:
        path.unlink()
    if file == "manifest.json" and damage == "flip":
        path.write_bytes(b"[" + data)
    assert checkpoint.read(tmp_path).step == 10
    assert f"WARNING: checkpoint {path.parent} is damaged ({file}" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "checkpoints" / "000000000010")
    with refuses(str(path.parent), file):
        checkpoint.read(tmp_path)


@pytest.mark.parametrize("file", ["manifest.json", "state.json"])
def test_a_disk_that_does_not_answer_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    write(tmp_path, 10, 20)
    real = os.open

    def fail(path: Any, *arguments: Any, **options: Any) -> Any:
        if str(path).endswith(f"20/{file}"):
            raise OSError(5, "Input/output error")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", fail)
    with refuses(f"20/{file}", "Input/output error"):
        checkpoint.read(tmp_path)


def test_a_damaged_checkpoint_is_replaced_when_the_run_reaches_it_again(tmp_path: Path) -> None:
    (write(tmp_path, 10, 20)[1] / "state.json").write_text("{}")
    write(tmp_path, 20)
    assert not list((tmp_path / "checkpoints").glob(".*"))
    assert checkpoint.read(tmp_path).step == 20
    assert set(checkpoint.verify(tmp_path / "checkpoints" / "000000000020").values()) == {"ok"}


def test_a_damaged_one_ahead_does_not_push_out_what_is_written(tmp_path: Path) -> None:
    (write(tmp_path, 10, 20)[1] / "state.json").write_text("{}")
    write(tmp_path, 12, 15, keep=1, protect=(10,))
    assert checkpoint.read(tmp_path, step=15).step == 15
    assert checkpoint.steps(tmp_path) == [10, 15, 20]
    drop_beyond(tmp_path, 15)
    assert checkpoint.steps(tmp_path) == [10, 15]
    assert sorted(p.name for p in (tmp_path / "checkpoints").glob(".*")) == []


def test_a_kill_while_a_step_is_written_again_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [path] = write(tmp_path, 10)
    real = os.replace

    def die(source: Path, target: Path) -> None:
        if Path(source).name.endswith(".draft"):
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, 10)
    monkeypatch.undo()
    assert checkpoint.steps(tmp_path) == []
    recover(tmp_path)
    assert checkpoint.read(tmp_path).step == 10
    path.rename(path.with_name(f".{path.name}.old"))
    write(tmp_path, 20)  # a save that comes first puts it back as well
    assert checkpoint.steps(tmp_path) == [10, 20]


def test_a_copied_checkpoint_knows_its_step(tmp_path: Path) -> None:
    [path] = write(tmp_path, 10)
    shutil.copytree(path, tmp_path / "best@copy")
    assert checkpoint.read(tmp_path / "best@copy").step == 10
    shutil.copytree(path, tmp_path / "checkpoints" / "1²")
    shutil.copytree(path, tmp_path / "checkpoints" / "20")
    assert checkpoint.steps(tmp_path) == [10]


def test_a_crash_inside_a_write_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 10)
    written: list[int] = []

    def crash(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, 20)
    monkeypatch.undo()
    assert checkpoint.read(tmp_path).step == 10
    write(tmp_path, 20)
    assert [p.name for p in sorted((tmp_path / "checkpoints").iterdir())] == [
        "000000000010",
        "000000000020",
    ]


def test_missing_and_foreign_checkpoints_have_their_sentence(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(b"PK")
    for place in (tmp_path / "nowhere", tmp_path, tmp_path / "model.zip"):
        with refuses(str(place)):
            checkpoint.read(place)
    [path] = write(tmp_path, 10)
    with refuses("step 11", "10"):
        checkpoint.read(tmp_path, step=11)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with refuses("format 99"):
        checkpoint.read(tmp_path)


def test_another_architecture_is_named_by_the_part_that_differs(tmp_path: Path) -> None:
    write(tmp_path, 10)
    with refuses("weight", "(4, 3, 5, 5)", "(4, 2, 5, 5)"):
        checkpoint.require_same_shapes(FakeModel(width=2), checkpoint.read(tmp_path))  # type: ignore[arg-type]
