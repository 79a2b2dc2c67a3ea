"""Run folders as a stranger would craft them: every hash right, and something else in them.

test_attack_table, test_strangers_folder and test_looking -> **folders** -> an honest run, changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file, save_file

from reprl.cli import main
from reprl.config.schema import hash_of
from reprl.envs.vector import MAGIC

SMALL = [
    *("threads=1", "device=cpu", "progress=off", "env.n_envs=2", "env.workers=0"),
    *("env.max_frames=1000", "algo.n_steps=16", "algo.batch_size=16", "total_steps=64"),
    *("checkpoint.every=32", "eval.every=0"),
]
TAUGHT = [
    *("algo=distillation", *(word for word in SMALL if "batch_size" not in word)),
    *("algo.batch_size=16", "algo.updates=1", "encoder=nature"),
]
PLAY = ["variants=original", "episodes=1", "workers=0", "progress=off", "agents=none"]
EVIL = """
from pathlib import Path
Path({marker!r}).write_text("imported")
from reprl.encoders import Nature as Enc
from reprl.envs import Effect
class Look(Effect): pass
def rate(progress): return 1e-3
"""
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def change(file: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    values = json.loads(file.read_text())
    edit(values)
    file.write_text(json.dumps(values))


def change_config(run: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Edit config.yaml and give run.json its new hash, as a careful attacker would."""
    values = yaml.safe_load((run / "config.yaml").read_text())
    edit(values)
    (run / "config.yaml").write_text(yaml.safe_dump(values))
    change(run / "run.json", lambda record: record.update(config_hash=hash_of(values)))


def newest(run: Path) -> Path:
    return sorted((run / "checkpoints").iterdir())[-1]


def sign(place: Path) -> None:
    """Write the manifest anew, so that every hash is right."""

    def hashes(manifest: dict[str, Any]) -> None:
        for file in manifest["sha256"]:
            manifest["sha256"][file] = hashlib.sha256((place / file).read_bytes()).hexdigest()

    change(place / "manifest.json", hashes)


def change_state(run: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    change(newest(run) / "state.json", lambda record: edit(record["meta"]))
    sign(newest(run))


def change_snapshot(run: Path, edit: Callable[[dict[str, Any]], Any], blob: bytes = b"") -> None:
    """Edit what the environments' snapshot says of each of them, and perhaps its bytes."""
    file = newest(run) / "state.safetensors"
    tensors = load_file(file)
    body = bytes(tensors["env"].numpy())[len(MAGIC) + 32 :]
    end = 8 + int.from_bytes(body[:8], "little")
    header, rest = json.loads(body[8:end]), body[end:]
    for meta in header["envs"]:
        edit(meta)
    if blob:
        header["sizes"], rest = [len(blob)] * len(header["sizes"]), blob * len(header["sizes"])
    text = json.dumps(header).encode()
    body = len(text).to_bytes(8, "little") + text + rest
    whole = MAGIC + hashlib.sha256(body).digest() + body
    tensors["env"] = torch.frombuffer(bytearray(whole), dtype=torch.uint8).clone()
    save_file(tensors, file)
    sign(newest(run))


def touching(marker: Path) -> dict[str, Any]:
    return {"_target_": "os:system", "command": f"touch {marker}"}


def every_command(run: Path) -> dict[str, list[str]]:
    parent = [*SMALL, "encoder=nature", "run_dir=branch", "total_steps=96"]
    return {
        "verify": ["verify", str(run)],
        "runs": ["runs", str(run.parent)],
        "diff": ["diff", str(run), str(run)],
        "report": ["report", str(run), "figures=false", "out=page"],
        "evaluate": ["evaluate", str(run), *PLAY],
        "a folder of runs": ["evaluate", str(run.parent), *PLAY],
        "attention": ["attention", str(run), "steps=16"],
        "video": ["video", str(run), "seconds=0.2", "output=film.gif"],
        "export": ["runs", str(run), "export=copy"],
        "player": ["record", f"player={run}", "frames=16", "n_envs=2", "out=played"],
        "teacher": ["train", *TAUGHT, f"algo.teacher={run}", "run_dir=taught"],
        "parent": ["train", f"parent={run}", *parent],
        "resume": ["resume", str(run)],  # last: it writes a checkpoint of its own
    }


def studies(run: Path) -> dict[str, list[str]]:
    """Commands that play for long with an agent, once its folder is let in."""
    names = ("probe", "layers", "intervene", "breaking", "embed", "plasticity")
    found = {name: [name, str(run)] for name in names}
    found["layers"].append("variants=green_lines")
    return found


def run_all(run: Path, only: tuple[str, ...] = ()) -> dict[str, int]:
    """The exit code of every command on a folder; an attack may fail, never with a traceback."""
    commands = every_command(run)
    return {name: main(commands[name]) for name in only or commands}
