"""What is written down about golden files: bits of a last checkpoint, a snapshot's future, the CPU.

`make.sh` of a version calls this with the code of that version; the tests measure the same things
with today's code and compare.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reprl import checkpoint
from reprl.envs import make_vec_env

PARTS = ("parameters", "optimizer", "state")
HEAD = 4  # values of each parameter that are kept to compare where bits may differ
# one environment each: every kind of change an environment's state has to carry
VARIANTS: list[Any] = [
    "green_lines@0.7+drift_left",
    "moving_square+bricks_resampled",
    "strobing_player",
    "noise",
    {
        "_target_": "reprl.envs.variation.shapes:Lines",
        "colour": [200, 0, 0],
        "direction": "vertical",
        "count": 3,
        "severity": 0.5,
    },
]
SETTINGS: dict[str, Any] = {"n_envs": len(VARIANTS), "sticky": 0.25, "max_frames": 1200}


def tensor_bits(tensor: Tensor) -> str:
    """Identifies a tensor's kind, shape and bits."""
    array = tensor.detach().cpu().contiguous()
    head = f"{array.dtype} {tuple(array.shape)} ".encode()
    return hashlib.sha256(head + array.view(-1).numpy().tobytes()).hexdigest()[:16]


def bits(stored: checkpoint.StoredCheckpoint) -> dict[str, dict[str, str]]:
    """The bits of every tensor of a checkpoint, by its part and name."""
    return {
        part: {name: tensor_bits(t) for name, t in sorted(getattr(stored, part).items())}
        for part in PARTS
    }


def movement(
    before: checkpoint.StoredCheckpoint, after: checkpoint.StoredCheckpoint
) -> dict[str, dict[str, Any]]:
    """How far each parameter went between two checkpoints, and its first values at the end."""
    found = {}
    for name, tensor in sorted(after.parameters.items()):
        change = (tensor.double() - before.parameters[name].double()).norm().item()
        head = [float(x) for x in tensor.flatten()[:HEAD]]
        found[name] = {"moved": change, "head": head}
    return found


def final(run: Path, *, start: int, end: int) -> dict[str, Any]:
    """What the last checkpoint of a run holds, small enough to be committed."""
    before, after = checkpoint.read(run, start), checkpoint.read(run, end)
    record = json.loads((after.path / "state.json").read_text())
    return {
        "start": start,
        "end": end,
        "bits": bits(after),
        "parameters": movement(before, after),
        "meta": record["meta"],
        "loop": record["loop"],
    }


def future(env: Any, steps: int = 150) -> list[str]:
    """A hash for each environment of all that the next seeded steps give."""
    rng = np.random.default_rng(1)
    hashes = [hashlib.sha256(o.tobytes()) for o in env.observations()]
    for _ in range(steps):
        observations, rewards, dones, infos = env.step(rng.integers(4, size=env.num_envs))
        for i, one in enumerate(hashes):
            one.update(observations[i].tobytes() + rewards[i].tobytes() + dones[i].tobytes())
            if "episode" in infos[i]:
                one.update(repr((infos[i]["episode"]["r"], infos[i]["episode"]["l"])).encode())
    for i, objects in enumerate(env.objects()):
        hashes[i].update(repr((str(objects.ball), str(objects.paddle))).encode())
        hashes[i].update(objects.bricks.tobytes())
    return [one.hexdigest() for one in hashes]


def machine() -> dict[str, str]:
    """All that the last bit of a float may depend on besides the code."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [line.partition(":") for line in info.read_text().split("\n\n")[0].splitlines()]
        cpu = {key.strip(): value.strip() for key, _, value in lines}
        names = ("vendor_id", "cpu family", "model", "model name", "flags")
        model = " ".join(cpu.get(name, "?") for name in names[:-1])
        flags = hashlib.sha256(cpu.get("flags", "").encode()).hexdigest()[:16]
    else:
        flags = "?"
    return {
        "cpu": model,
        "flags": flags,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
    }


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def finals(runs: Path) -> None:
    """Write down the last checkpoint of each run and drop it: the one before goes on."""
    found = {}
    for run in sorted(runs.iterdir()):
        start, end = checkpoint.steps(run)
        found[run.name] = final(run, start=start, end=end)
        shutil.rmtree(run / "checkpoints" / f"{end:012d}")
    write_json(runs.parent / "finals.json", {k: v for k, v in found.items() if _kept(k)})


def tidy(runs: Path) -> None:
    """Drop what no test reads, and what only says where it was made."""
    for lock in runs.rglob(".*lock"):
        lock.unlink()
    for run in sorted(runs.iterdir()):
        shutil.rmtree(run / "tensorboard", ignore_errors=True)
        if not (run / "run.json").is_file():
            continue
        if not _kept(run.name):
            shutil.rmtree(run / "checkpoints")
        for picture in [*run.glob("attention/*.png"), *run.glob("attention/*.mp4")]:
            picture.unlink()
        record = json.loads((run / "run.json").read_text())
        record |= {"python_path": [], "host": "", "pid": 0}
        (run / "run.json").write_text(json.dumps(record, indent=1))


def environment(place: Path) -> None:
    """Write a snapshot of every kind of variant in the middle of a game, and its future."""
    env = make_vec_env(VARIANTS, seed=3, **SETTINGS)
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(60):
        env.step(rng.integers(4, size=env.num_envs))
    (place / "environment.snapshot").write_bytes(env.snapshot())
    write_json(place / "environment.json", future(env))
    env.close()


def _kept(name: str) -> bool:
    """Runs whose checkpoint is committed: of each method with extras the first seed."""
    return name.endswith("_s0") and "none" not in name


if __name__ == "__main__":
    what, place = sys.argv[1], Path(sys.argv[2])
    if what == "machine":
        write_json(place / "machine.json", machine())
    else:
        {"finals": finals, "tidy": tidy, "environment": environment}[what](place)
