"""The faults: each function injects one kind so many times and says after each what was lost.

torture and tests -> **scenarios** -> harness. The truth to compare with is always the same command
on a folder that nobody touched.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

from reprl.disk import FULL
from reprl.tables import read_rows
from tests.faults.harness import (
    BEFORE_IT,
    NEWEST,
    PLAY,
    PLAY_ALONE,
    RANKS,
    SMALL,
    Disk,
    Outcomes,
    Place,
    Process,
    alive,
    but,
    difference,
    disk,
    first,
    games,
    gone,
    unclean,
)

WORKER = "reprl.envs.worker"
RANK = "-m reprl train"  # of the processes below a launcher of ranks
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
Strike = Callable[[Process, Path], tuple[bool, list[int]]]  # whether it was killed, its children


# -- killed ---------------------------------------------------------------------------------------


def kills_while_training(place: Place, count: int) -> Outcomes:
    """SIGKILL of train and resume at a random moment, up to three times in a row."""
    yield from _chains(place, count, _kill_at_random, "env.workers=1", place.whole_with_a_worker)


def kills_in_a_checkpoint(place: Place, count: int) -> Outcomes:
    """SIGKILL while the files of a checkpoint are being written."""
    yield from _chains(place, count, _kill_in_a_write, "env.workers=0", place.whole)


def signals_while_training(place: Place, count: int) -> Outcomes:
    """SIGTERM, SIGINT, SIGHUP and SIGUSR2 at a random moment: a checkpoint, then the end."""
    for number in range(count):
        path = place.copy(place.half)
        process = place.start("resume", path)
        _resuming(process, path)
        process.at_random(0.0, 0.3)
        process.signal(STOPPING[number % len(STOPPING)])
        process.end()
        yield _resumed(place, path, stopped=True)


def kills_of_a_worker(place: Place, count: int) -> Outcomes:
    """SIGKILL of an environment worker: the run ends by itself, and goes on where it was."""
    for _ in range(count):
        path, process = _training(place)
        workers = process.children(WORKER)
        with suppress(ProcessLookupError, IndexError):
            os.kill(place.chance.choice(workers), signal.SIGKILL)
        process.end()
        bad = first(unclean_but_worker(process), gone(workers))
        yield first(bad, _resumed(place, path, place.whole_with_a_worker))


def kills_of_a_rank(place: Place, count: int) -> Outcomes:
    """SIGKILL of one of two ranks: both end, it is named, and the run goes on where it was."""
    truth = place.whole_with_ranks
    for _ in range(count):
        path = place.new("ranks")
        process = place.start("train", *RANKS, f"run_dir={path}")
        process.until(lambda path=path: (path / "metrics.csv").exists())  # type: ignore[misc]
        process.at_random(0.0, 0.2)
        ranks = process.children(RANK)
        with suppress(ProcessLookupError, IndexError):
            os.kill(place.chance.choice(ranks), signal.SIGKILL)
        process.end()
        named = process.code == 0 or (process.code == 1 and "rank" in process.said)
        bad = None if named else f"exit code {process.code}: {process.said[-200:]}"
        yield first(bad, gone(ranks), _resumed(place, path, truth))


def stops_of_a_worker(place: Place, count: int) -> Outcomes:
    """SIGSTOP of a worker for a second or two: the run waits and ends as if nothing had been."""
    for _ in range(count):
        path, process = _training(place)
        workers = process.children(WORKER)
        with suppress(ProcessLookupError, IndexError):
            chosen = place.chance.choice(workers)
            os.kill(chosen, signal.SIGSTOP)
            time.sleep(place.chance.uniform(0.5, 2.0))
            os.kill(chosen, signal.SIGCONT)
        process.end()
        lost = first(
            unclean(process, (0,)), gone(workers), difference(path, place.whole_with_a_worker)
        )
        place.forget(path)
        yield lost


def kills_of_evaluate(place: Place, count: int) -> Outcomes:
    """SIGKILL of evaluate at a random moment: the same command plays what is missing."""
    truth = place.played
    for _ in range(count):
        path = place.copy(place.whole)
        process = place.start("evaluate", path, *PLAY, "workers=1", "n_envs=2")
        process.at_random(0.1, 0.6)
        workers = process.children(WORKER)
        process.signal(signal.SIGKILL)
        process.end()
        again = place.run("evaluate", path, *PLAY_ALONE)
        lost = first(gone(workers), unclean(again, (0,)), _same_games(path, truth))
        place.forget(path)
        yield lost


def kills_of_a_launcher(place: Place, count: int) -> Outcomes:
    """SIGKILL of a sweep's launcher: the same command finishes every job, none twice."""
    for _ in range(count):
        path = place.new("sweep")
        sweep = ["train", "-m", *_SHORT, "seed=0,1", "sweep.jobs=2", f"run_dir={path}"]
        process = place.start(*sweep, fault="forked_jobs")
        process.until(lambda: list(path.glob("*/config.yaml")))  # noqa: B023  # asked at once
        jobs = process.children()
        process.signal(signal.SIGKILL)
        struck = process.end() == -signal.SIGKILL
        bad = None if struck else f"the sweep ended before it was killed: {process.said[-200:]}"
        if bad is None:  # jobs outlive their launcher: the next one leaves them alone
            bad = unclean(place.run(*sweep, fault="forked_jobs"))
        deadline = time.monotonic() + place.patience
        while alive(jobs) and time.monotonic() < deadline:
            time.sleep(0.1)
        again = place.run(*sweep, fault="forked_jobs")
        bad = first(bad, unclean(again, (0,)))
        folders = [p.parent.name for p in path.glob("*/run.json")]
        bad = first(bad, gone(jobs))
        if bad is None and len(folders) != 2:
            bad = f"{len(folders)} run folders for two jobs"
        place.forget(path)
        yield bad


def _chains(place: Place, count: int, kill: Strike, workers: str, whole: Path) -> Outcomes:
    """Runs that are killed up to three times each, and then go on to their end."""
    done = 0
    while done < count:
        path, kills = place.new("killed"), 0
        while kills < min(3, count - done):
            process = _begin(place, path, workers)
            struck, children = kill(process, path)
            if not struck:
                break  # it was faster, and is finished
            kills += 1
            if left := gone(children):
                yield left
                done, kills = done + 1, kills - 1
        process = _begin(place, path, workers)
        process.end()
        lost = first(unclean(process, (0,)), difference(path, whole))
        place.forget(path)
        yield from [lost] * kills
        done += kills


def _begin(place: Place, path: Path, workers: str) -> Process:
    if (path / "run.json").exists():
        return place.start("resume", path)
    return place.start("train", *but(SMALL, workers), f"run_dir={path}")


def _kill_at_random(process: Process, path: Path) -> tuple[bool, list[int]]:
    return _strike(process) if process.at_random(0.0, 0.9) else _no


def _kill_in_a_write(process: Process, path: Path) -> tuple[bool, list[int]]:
    """Look for the draft as often as this process can, and strike a moment later."""
    moment = process.place.chance.uniform(0.0, 0.004)
    folder = path / "checkpoints"
    deadline = time.monotonic() + process.place.patience
    while time.monotonic() < deadline:
        with suppress(OSError):
            if any(name.endswith(".draft") for name in os.listdir(folder)):
                time.sleep(moment)
                return _strike(process)
        if process.wait(0) is not None:
            break
        time.sleep(0.0003)  # the processor is the run's
    return _no


_A2C = [
    word
    for word in SMALL
    if not word.startswith(("algo", "total", "check", "log", "eval.ev", "env.work"))
]
_no: tuple[bool, list[int]] = (False, [])
_SHORT = but(SMALL, "total_steps=32", "eval.every=0")


def _strike(process: Process) -> tuple[bool, list[int]]:
    workers = process.children()
    process.signal(signal.SIGKILL)
    return process.end() == -signal.SIGKILL, workers


def _training(place: Place) -> tuple[Path, Process]:
    """A run with a worker that has written its first rows, to be hurt."""
    assert place.whole_with_a_worker
    path = place.new("training")
    process = place.start("train", *but(SMALL, "env.workers=1"), f"run_dir={path}")
    process.until(lambda: (path / "metrics.csv").exists())
    process.at_random(0.0, 0.2)
    return path, process


def _resuming(process: Process, path: Path) -> None:
    """Wait until a resumed run is at work: its signal handlers are there."""

    def at_work() -> bool:
        with suppress(OSError, ValueError):
            return json.loads((path / "run.json").read_text()).get("pid") == process.pid
        return False

    process.until(at_work)


def _resumed(
    place: Place, path: Path, truth: Path | None = None, *, stopped: bool = False
) -> str | None:
    """What a run that was hurt has lost when it goes on to its end."""
    again = place.run("resume", path)
    lost = first(unclean(again, (0,)), difference(path, truth or place.whole, stopped=stopped))
    place.forget(path)
    return lost


def _same_games(path: Path, truth: str) -> str | None:
    return None if games(path) == truth else "episodes.csv differs"


def unclean_but_worker(process: Process) -> str | None:
    """A dead worker ends a run with exit code 1 and its name, unless the run was already done."""
    if process.code == 0:
        return None
    if process.code != 1 or "environment worker" not in process.said:
        return f"exit code {process.code}: {process.said[-200:]}"
    return None


# -- at once --------------------------------------------------------------------------------------


def two_resumes(place: Place, count: int) -> Outcomes:
    """Two resumes of one folder at once: one goes on, the other says that it does."""
    for _ in range(count):
        path = place.copy(place.half)
        both = [place.start("resume", path), place.start("resume", path)]
        codes = sorted(process.end() for process in both)
        bad = first(*(unclean(process, (0, 2)) for process in both))
        if bad is None and codes != [0, 0] and "another process" not in both[0].said + both[1].said:
            bad = f"exit codes {codes} without a word of the other process"
        lost = first(bad, difference(path, place.whole))
        place.forget(path)
        yield lost


def two_evaluations(place: Place, count: int) -> Outcomes:
    """Two evaluations of one folder at once: every game is there, and none twice."""
    truth = place.played
    for _ in range(count):
        path = place.copy(place.whole)
        both = [
            place.start("evaluate", path, *PLAY, "workers=0", at_once)
            for at_once in ("n_envs=2", "n_envs=1")
        ]
        bad = first(*(unclean(process, (0,)) for process in both if process.end() or True))
        lost = first(bad, _same_games(path, truth))
        place.forget(path)
        yield lost


# -- the disk -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Writer:
    """A command that writes: on which folder, and how to see that it did all its work."""

    name: str
    arguments: tuple[str, ...]  # {run}, {disk} stand for places on the disk
    check: str  # a path that exists after it is done


WRITERS = (
    Writer("train", ("train", *SMALL, "run_dir={disk}/new"), "{disk}/new/" + NEWEST),
    Writer("resume", ("resume", "{run}"), "{run}/" + NEWEST),
    Writer("evaluate", ("evaluate", "{run}", *PLAY_ALONE), "{run}/evaluation/episodes.csv"),
    Writer(
        "twin",
        ("evaluate", "{run}", "twin=true", "variants=green_lines", "steps=16", "workers=0"),
        "{run}/evaluation/twin.csv",
    ),
    Writer("attention", ("attention", "{run}", "steps=16"), "{run}/attention/original.png"),
    Writer("probe", ("probe", "{run}", "frames=120", "games=3"), "{run}/evaluation/probes.csv"),
    Writer(
        "report", ("report", "{run}", "figures=false", "out={disk}/page"), "{disk}/page/report.html"
    ),
    Writer("runs export", ("runs", "{run}", "export={disk}/copy"), "{disk}/copy"),
    Writer("preview", ("preview", "variant=green_lines", "output={disk}/x.png"), "{disk}/x.png"),
)
READERS = (
    ("verify", "{run}"),
    ("runs", "{run}"),
    ("diff", "{run}", "{run}"),
    ("report", "{run}", "figures=false", "out={outside}"),
)


def full_disks(place: Place, count: int) -> Outcomes:
    """A disk that is or becomes full during each command; with room the same command is done."""
    with disk(place) as small:
        for number in range(count):
            writer = WRITERS[number % len(WRITERS)]
            yield _full(place, small, writer, place.chance.choice([0, 0, 8_192, 200_000, 900_000]))


def _full(place: Place, small: Disk, writer: Writer, leave: int) -> str | None:
    run = place.copy(place.half, small.path / "run")
    names = {"run": str(run), "disk": str(small.path)}
    arguments = [word.format(**names) for word in writer.arguments]
    wanted = Path(writer.check.format(**names))
    before = _kept(run)
    small.fill(leave)
    process = place.run(*arguments)
    bad = unclean(process)
    if bad is None and process.code and FULL not in process.said:
        bad = f"exit code {process.code} without a word of the disk: {process.said[-200:]}"
    small.empty()
    bad = first(bad, _changed(run, before))
    if (small.path / "new" / "run.json").exists():
        arguments = ["resume", str(small.path / "new")]
    if bad is None:
        again = place.run(*arguments)
        bad = first(unclean(again, (0,)), None if wanted.exists() else f"no {wanted.name}")
    if bad is None and writer.name in ("train", "resume"):
        bad = difference(wanted.parent.parent, place.whole)
    for path in small.path.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return bad and f"{writer.name} with {leave:,} bytes left: {bad}"


def read_only_folders(place: Place, count: int) -> Outcomes:
    """A folder that cannot be written: reading commands work, writing ones say so."""
    commands = [*READERS, ("resume", "{run}"), ("train", *SMALL, "run_dir={disk}/new")]
    with disk(place) as small:
        run = place.copy(place.half, small.path / "run")
        before = _kept(run)
        small.read_only(True)
        for number in range(count):
            chosen = commands[number % len(commands)]
            names = {"run": str(run), "disk": str(small.path), "outside": str(place.new("page"))}
            process = place.run(*(word.format(**names) for word in chosen))
            reads = chosen in READERS
            said = reads or "cannot be written" in process.said
            bad = first(
                unclean(process, (0,) if reads else (2,)),
                None if said else f"it did not say why: {process.said[-200:]}",
                _changed(run, before),
            )
            yield bad and f"{chosen[0]}: {bad}"
        small.read_only(False)


def _kept(run: Path) -> dict[str, bytes]:
    """What no command may lose: the configuration and every checkpoint."""
    files = [run / "config.yaml", *(p for p in run.glob("checkpoints/0*/*") if p.is_file())]
    return {str(p.relative_to(run)): p.read_bytes() for p in files}


def _changed(run: Path, before: dict[str, bytes]) -> str | None:
    """Which of them is changed; older checkpoints may have given way to newer ones."""
    newest = max(p.name for p in run.glob("checkpoints/0*"))
    for name, data in before.items():
        file = run / name
        if not file.exists() and newest > max(name.split("/")[1] for name in before if "/" in name):
            continue
        if not file.exists() or file.read_bytes() != data:
            return f"{name} is not what it was"
    with suppress(ValueError):
        json.loads((run / "run.json").read_text())
        return None
    return "run.json cannot be read"


# -- damaged files --------------------------------------------------------------------------------

EVENTS = "tensorboard/events"  # the rest of its name is a time and a machine
OF_THE_NEWEST = tuple(
    f"{BEFORE_IT}/{name}"
    for name in (
        *("manifest.json", "state.json", "parameters.safetensors", "optimizer.safetensors"),
        "state.safetensors",
    )
)
OTHERS = ("run.json", "config.yaml", "metrics.csv", "evaluation/validation.csv", EVENTS)
KINDS = ("cut", "emptied", "flipped", "garbled", "gone")


def damaged_files(place: Place, count: int) -> Outcomes:
    """A file cut, emptied, with a flipped bit, overwritten or gone: refused or made good."""
    cases = [(file, kind) for file in (*OF_THE_NEWEST, *OTHERS) for kind in KINDS]
    for number in range(count):
        file, kind = cases[number * 7 % len(cases)]  # all of them in turn: 7 divides no 50
        path = place.copy(place.half)
        damage(place, next((path / file).parent.glob(f"{Path(file).name}*")), kind)
        bad = None
        for looking in (("verify", path), ("runs", path), ("report", path, "figures=false")):
            out = [f"out={place.new('page')}"] if looking[0] == "report" else []
            found = place.run(*looking, *out)
            bad = bad or ((wrong := unclean(found)) and f"{looking[0]}: {wrong}")
        process = place.run("resume", path)
        bad = bad or unclean(process)
        if bad is None and process.code == 0:
            bad = difference(path, place.whole, rows=file not in OTHERS)
        elif bad is None and file in OF_THE_NEWEST:
            bad = f"resume did not go back behind it: {process.said[-200:]}"
        place.forget(path)
        yield bad and f"{file} {kind}: {bad}"


def damage(place: Place, file: Path, kind: str) -> None:
    data = bytearray(file.read_bytes())
    at = place.chance.randrange(len(data))
    if kind == "gone":
        file.unlink()
        return
    if kind == "cut":
        data = data[:at]
    elif kind == "emptied":
        data.clear()
    elif kind == "flipped":
        data[at] ^= 1 << place.chance.randrange(8)
    else:
        data[at : at + 64] = place.chance.randbytes(64)
    file.write_bytes(data)


def later_versions(place: Place, count: int) -> Outcomes:
    """Files that a later version of reprl wrote: read, or refused in a sentence."""
    cases = (
        (f"{BEFORE_IT}/manifest.json", {"format": 99}, (2,)),
        ("run.json", {"versions": {"reprl": "99.0"}, "news": {"a": [1]}}, (0,)),
        ("run.json", {"status": "paused"}, (0, 2)),
        ("config.yaml", {"news": 1}, (2,)),
        ("config.yaml", {"checkpoint": {"every": 64, "keep": 3, "news": 1}}, (2,)),
    )
    for number in range(count):
        name, change, codes = cases[number % len(cases)]
        path = place.copy(place.half)
        file = path / name
        values = yaml.safe_load(file.read_text())
        text = {**values, **change}
        file.write_text(json.dumps(text) if name.endswith("json") else yaml.safe_dump(text))
        process = place.run("resume", path)
        bad = unclean(process, codes)
        if bad is None and process.code == 0:
            bad = difference(path, place.whole)
        place.forget(path)
        yield bad and f"{name} with {change}: {bad}"


# -- clocks and loggers ---------------------------------------------------------------------------


def clock_jumps(place: Place, count: int) -> Outcomes:
    """The wall clock jumps a day back and ahead all the time: nothing but its own columns knows."""
    for _ in range(count):
        path = place.copy(place.half)
        process = place.run("resume", path, fault="clock_jumps")
        elapsed = [float(r["time/elapsed"]) for r in read_rows(path / "metrics.csv")]
        backwards = None if elapsed == sorted(elapsed) else "time/elapsed runs backwards"
        lost = first(unclean(process, (0,)), difference(path, place.whole), backwards)
        place.forget(path)
        yield lost


def tensorboard_dies(place: Place, count: int) -> Outcomes:
    """TensorBoard's file cannot be written any more: the run ends as if nothing had been."""
    for _ in range(count):
        path = place.new("tensorboard")
        process = place.run(*("train", *SMALL, f"run_dir={path}"), fault="tensorboard_dies")
        lost = first(unclean(process, (0,)), difference(path, place.whole))
        place.forget(path)
        yield lost


def wandb_dies(place: Place, count: int) -> Outcomes:
    """SIGKILL of wandb's service at a random moment: a warning, and the run ends all the same."""
    for _ in range(count):
        assert place.whole
        path = place.new("wandb")
        process = place.start(
            *("train", *SMALL, "wandb=offline", f"run_dir={path}"),
            environment={"WANDB_MODE": "offline"},
        )
        process.until(lambda: process.children("wandb"))  # noqa: B023  # asked at once
        process.at_random(0.0, 0.3)
        for pid in process.children("wandb"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.end()
        # what wandb's own exit hook prints of the dead service is not the run's
        code = None if process.code == 0 else f"exit code {process.code}"
        many = "more than one warning" if process.said.count("wandb is lost") > 1 else None
        lost = first(code, many, difference(path, place.whole))
        place.forget(path)
        yield lost


# -- growth ---------------------------------------------------------------------------------------

GROWTH = 32e6  # bytes; a rollout kept by each of 800 updates would be over 200 MB


@dataclass(frozen=True)
class Size:
    """What a process holds."""

    memory: int  # bytes resident
    handles: int
    shared: int  # mappings of shared memory


def size_of(pid: int) -> Size:
    proc = Path(f"/proc/{pid}")
    pages = int((proc / "statm").read_text().split()[1])
    maps = (proc / "maps").read_text()
    shared = maps.count("/memfd:") + maps.count("/dev/shm/")
    return Size(pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(proc / "fd")), shared)


def updates_without_growth(place: Place, count: int) -> Outcomes:
    """So many updates, with checkpoints, rows and workers: no growth after the first fifth."""
    path = place.new("long")
    before = set(os.listdir("/dev/shm"))
    process = place.start(
        *("train", *_A2C, "env.workers=1", "algo=a2c", "algo.n_steps=5", "eval.every=0"),
        *(f"total_steps={10 * count}", f"checkpoint.every={count}", f"log.every={count // 10}"),
        f"run_dir={path}",
    )
    sizes: list[tuple[int, Size]] = []
    while process.wait(0.2) is None:
        with suppress(OSError, IndexError):
            sizes.append((int(read_rows(path / "metrics.csv")[-1]["step"]), size_of(process.pid)))
    settled = [size for step, size in sizes if step >= 2 * count]
    bad = unclean(process, (0,))
    if bad is None and len(settled) < 2:
        bad = "too short to be measured"
    if bad is None:
        early, late = settled[0], settled[-1]
        bad = first(
            f"{late.memory - early.memory:,} bytes"
            if late.memory - early.memory > GROWTH
            else None,
            f"{late.handles - early.handles} handles" if late.handles > early.handles + 2 else None,
            f"{late.shared - early.shared} mappings" if late.shared > early.shared else None,
            "files in /dev/shm" if set(os.listdir("/dev/shm")) - before else None,
        )
    place.forget(path)
    yield from _all(count, bad)


def a_sweep_without_growth(place: Place, count: int) -> Outcomes:
    """So many short runs in one sweep: all finish, and the launcher holds no more at its end."""
    path = place.new("sweep")
    before = set(os.listdir("/dev/shm"))
    seeds = f"seed=range({count})" if count > 1 else "seed=0"
    process = place.start("train", "-m", *_SHORT, seeds, f"run_dir={path}", fault="forked_jobs")
    sizes: list[Size] = []
    while process.wait(1.0) is None:
        with suppress(OSError):
            if list(path.glob("*/run.json")):
                sizes.append(size_of(process.pid))
    finished = [p for p in path.glob("*/run.json") if '"finished"' in p.read_text()]
    bad = unclean(process, (0,))
    if len(finished) != count:
        bad = f"{count - len(finished)} of {count} runs are not finished"
    elif sizes and max(s.handles for s in sizes) > sizes[0].handles + 8:
        bad = f"{max(s.handles for s in sizes) - sizes[0].handles} handles"
    elif sizes and sizes[-1].memory - sizes[0].memory > GROWTH:
        bad = f"{sizes[-1].memory - sizes[0].memory:,} bytes"
    elif set(os.listdir("/dev/shm")) - before:
        bad = "files in /dev/shm"
    place.forget(path)
    yield from _all(count, bad)


def _all(count: int, bad: str | None) -> Iterator[str | None]:
    """One measurement that stands for so many."""
    yield bad
    yield from [None] * (count - 1)
