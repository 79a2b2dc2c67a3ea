"""A real full disk: a tmpfs of a few megabytes that a sweep fills up, then gets room again."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprl.cli import main
from reprl.disk import FULL, is_full, out_of_space, write_atomically
from reprl.sweeps import local, plan
from reprl.sweeps.ledger import Ledger

TINY = [
    *("algo.n_steps=32", "algo.batch_size=64", "algo.n_epochs=1", "env.n_envs=2"),
    *("total_steps=512", "encoder.features_dim=8", "eval.every=0", "log.every=64"),
    *("checkpoint.every=128", "checkpoint.keep=3", "threads=1", "env.workers=0"),
]
GREEDY = """
import sys
with open(sys.argv[1], "wb", buffering=0) as file:
    while True:
        file.write(bytes(4096))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a disk of so many bytes; called again, it changes its size."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(size: int) -> Path:
        how = "remount," if os.path.ismount(place) else ""
        options = f"{how}size={size}"
        made = run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place))
        if made.returncode:
            pytest.skip(f"no disk may be mounted here: {made.stderr.strip()}")
        return place

    yield mount
    if os.path.ismount(place):
        run("umount", "-l", str(place))


def test_a_file_is_replaced_whole_or_not_at_all(disk: Callable[[int], Path]) -> None:
    file = disk(64 * 1024) / "run.json"
    write_atomically(file, "before")
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(file, "x" * 100_000)
    assert out_of_space(caught.value)
    assert not out_of_space(FileNotFoundError(2, "not there"))
    assert file.read_text() == "before"
    assert [p.name for p in file.parent.iterdir()] == ["run.json"]  # the draft gave its room back


@pytest.mark.slow
def test_the_launcher_and_the_ledger_survive_and_the_restart_finishes(
    disk: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = disk(2 * 1024 * 1024)
    eaten = place / "eaten"
    done = "import json, pathlib, sys; p = pathlib.Path(sys.argv[1]); p.mkdir(exist_ok=True);"
    done += '(p / "config.yaml").write_text("{}");'
    done += '(p / "run.json").write_text(json.dumps({"status": "finished"}))'
    real = local.command

    def command(job: plan.Job, ledger: Ledger, retry: bool) -> list[str] | None:
        if real(job, ledger, retry) is None:
            return None
        if job.config.seed == 1 and not eaten.exists():
            return [sys.executable, "-c", GREEDY, str(eaten)]
        return [sys.executable, "-c", done, str(ledger.folder / job.name)]

    monkeypatch.setattr(local, "command", command)

    def sweep() -> tuple[int, list[tuple[str, str | None]]]:
        made = plan.make(["seed=0,1,2", "sweep.jobs=1", f"run_dir={place / 'sweep'}"], [])
        ledger = Ledger(made.folder)
        ledger.open(made.jobs)
        code = local.Local(made, ledger).run()
        found = [ledger.entries[j.identity] for j in made.jobs]
        return code, [(e.status, e.reason) for e in found]

    code, found = sweep()
    assert is_full(place)
    assert code == 1
    assert found[0] == ("finished", None)
    assert found[1] == ("interrupted", FULL)  # it could not even say why
    assert found[2][0] in ("interrupted", "waiting")
    assert "the ledger could not be written: [Errno 28]" in capsys.readouterr().out
    index = json.loads((place / "sweep" / "ledger.json").read_text())  # the last one that fitted
    assert len(index["jobs"]) == 3
    eaten.write_bytes(b"")  # somebody tidies up
    assert sweep() == (0, [("finished", None)] * 3)


@pytest.mark.slow
def test_a_real_run_stops_resumably_and_ends_as_if_nothing_had_been(
    disk: Callable[[int], Path], tmp_path: Path
) -> None:
    assert main(["train", *TINY, "seed=1", f"run_dir={tmp_path / 'alone'}"]) == 0
    size = sum(p.stat().st_size for p in (tmp_path / "alone").rglob("*"))
    folder = disk(size * 3 // 2) / "sweep"
    command = [
        sys.executable,
        "-m",
        "reprl",
        "train",
        "-m",
        *TINY,
        "seed=0,1",
        "sweep.jobs=1",
        f"run_dir={folder}",
    ]
    first = run(*command)
    assert first.returncode == 1
    assert "Traceback" not in first.stdout + first.stderr
    assert "1 finished, 1 interrupted" in first.stdout
    assert f"job 1 interrupted: {FULL}" in first.stdout
    disk(size * 4)
    again = run(*command)
    assert again.returncode == 0, again.stdout
    assert "2 finished" in again.stdout
    (resumed,) = folder.glob("*_s1_*")
    for name in ("parameters", "optimizer", "state"):
        part = f"checkpoints/{512:012d}/{name}.safetensors"
        assert (resumed / part).read_bytes() == (tmp_path / "alone" / part).read_bytes()
