"""Checkpoints: after an update, the whole state of a run goes to disk, and back into a model.

A checkpoint is a folder `checkpoints/<step>/` of safetensors and JSON with a manifest of hashes. It
appears under its name only when every byte of it is on the disk, so a kill at any moment leaves the
one before intact. Loading imports the classes and schedules it names only from modules that
`reprl.trust` accepts, and calls only what is of the kind that belongs in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from reprl import __version__, guard
from reprl.checkpoint.chunks import remove_unnamed, verify_chunks
from reprl.checkpoint.files import OLD, candidates, path_of, prune, recover, remove_leftovers
from reprl.checkpoint.files import Damaged as Damaged
from reprl.checkpoint.files import steps as steps
from reprl.components import described
from reprl.envs.games import game
from reprl.envs.machine import OBSERVED
from reprl.errors import UserError
from reprl.escaping import shown
from reprl.trust import allow, reading

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

FORMAT = 1
Taken = TypeVar("Taken")
SECTIONS = ("parameters", "optimizer", "state")
FILES = (*(f"{part}.safetensors" for part in SECTIONS), "state.json")


@dataclass
class StoredCheckpoint:
    """A checkpoint read back: what `model.restore` takes, and what the training loop kept."""

    parameters: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Tensor]
    meta: dict[str, Any]
    loop: dict[str, Any]  # the training loop's own state: open averages, best score
    path: Path
    step: int


class RankState(Protocol):
    """What a checkpoint holds of a rank besides what all share."""

    @property
    def state(self) -> dict[str, Tensor]: ...

    @property
    def meta(self) -> dict[str, Any]: ...


def ranks_of(meta: dict[str, Any]) -> int:
    """How many ranks have written a checkpoint."""
    others = meta.get("ranks", [])
    return 1 + (len(others) if isinstance(others, list) else 0)


def of_rank(stored: StoredCheckpoint, rank: int) -> StoredCheckpoint:
    """A checkpoint as one rank continues it."""
    if rank == 0:
        return stored
    prefix = f"rank{rank}."
    own = {k.removeprefix(prefix): v for k, v in stored.state.items() if k.startswith(prefix)}
    buffers = {k.removeprefix("buffer."): v for k, v in own.items() if k.startswith("buffer.")}
    return replace(
        stored,
        parameters=stored.parameters | buffers,
        state=own,
        meta=_Record({**stored.meta, **stored.meta["ranks"][rank - 1]}, stored.path),
    )


def save(
    model: BaseAlgorithm,
    folder: str | Path,
    *,
    keep: int | None = None,
    protect: tuple[int, ...] = (),
    loop: dict[str, Any] | None = None,
    others: Sequence[RankState] = (),
) -> Path:
    """Write `folder/checkpoints/<step>`, then drop all but the newest `keep` and the protected.

    `others` are the private states of the ranks from 1 on.
    """
    data = getattr(model, "replay", lambda: None)()
    captured = model.capture() if data is None else model.capture(whole=False)  # type: ignore[attr-defined]
    if others:
        captured.meta["ranks"] = [other.meta for other in others]
        for rank, other in enumerate(others, start=1):
            captured.state |= {f"rank{rank}.{name}": t for name, t in other.state.items()}
    final = path_of(folder, model.num_timesteps)
    place = final.parent
    place.mkdir(parents=True, exist_ok=True)
    recover(folder)
    remove_leftovers(folder)  # of a kill inside an earlier write
    if data is not None:  # on the disk before the checkpoint that names it
        captured.meta["replay"] = model.written.append(Path(folder), data)  # type: ignore[attr-defined]
    draft = place / f".{final.name}.draft"
    draft.mkdir()
    try:
        _write_draft(draft, captured, model.num_timesteps, loop or {})
    except OSError:  # a full disk: what was written so far only takes more of it
        shutil.rmtree(draft, ignore_errors=True)
        raise
    if final.exists():  # one that the run has reached again; `recover` knows it by this name
        os.replace(final, place / f".{final.name}{OLD}")
    os.replace(draft, final)
    _sync(place)
    shutil.rmtree(place / f".{final.name}{OLD}", ignore_errors=True)
    if keep is not None:
        prune(folder, model.num_timesteps, keep, protect)
    if data is not None:
        remove_unnamed(Path(folder), [path_of(folder, step) for step in steps(folder)])
    return final


def _write_draft(draft: Path, captured: Any, step: int, loop: dict[str, Any]) -> None:
    """Write every part of a checkpoint and the manifest of their hashes."""
    layouts: dict[str, dict[str, list[int]]] = {}
    hashes: dict[str, str] = {}
    for part in SECTIONS:
        flat, layouts[part] = _flatten(getattr(captured, part))
        hashes[f"{part}.safetensors"] = _write(
            draft / f"{part}.safetensors", tensors_to_bytes(flat)
        )
    record = {"meta": captured.meta, "layouts": layouts, "loop": loop}
    text = json.dumps(record, sort_keys=True, indent=1, allow_nan=True)
    hashes["state.json"] = _write(draft / "state.json", text.encode())
    manifest = {
        "format": FORMAT,
        "step": step,
        "sha256": hashes,
        "reprl": __version__,
        "torch": torch.__version__,
        "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    _write(draft / "manifest.json", json.dumps(manifest, indent=1).encode())
    _sync(draft)


def save_weights(stored: StoredCheckpoint, folder: str | Path) -> Path:
    """Write a checkpoint that only plays: the parameters in half precision, no training state."""
    half = {
        name: t.half() if t.dtype == torch.float32 else t for name, t in stored.parameters.items()
    }
    meta = {**stored.meta, "weights_only": True, "episodes": None, "successes": None, "log": {}}
    meta.pop("replay", None)
    final = path_of(folder, stored.step)
    final.parent.mkdir(parents=True, exist_ok=True)
    draft = final.parent / f".{final.name}.draft"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    kept = StoredCheckpoint(half, {}, {}, meta, {}, final, stored.step)
    _write_draft(draft, kept, stored.step, {})
    shutil.rmtree(final, ignore_errors=True)
    os.replace(draft, final)
    return final


def load(
    folder: str | Path,
    env: VecEnv | None = None,
    *,
    step: int | None = None,
    trust: Iterable[str] = (),
) -> Any:
    """Rebuild the model of a run's newest (or the given) checkpoint, exactly as it was saved.

    `trust` names modules of yours that the checkpoint may use and this process has not imported.
    """
    from reprl.algorithms import rebuild

    allow(modules=trust)

    def rebuilt(stored: StoredCheckpoint) -> Any:
        with reading(folder):
            model = rebuild(stored.meta, env)
            require_same_shapes(model, stored)
            model.restore(stored)
            model.observed = _observed(stored.meta)
        if (config := Path(folder) / "config.yaml").is_file():
            found = guard.load_yaml(guard.read_text(config))
            model.run_config = found if isinstance(found, dict) else None
            model.run_name = Path(folder).resolve().name
        return model

    return use(folder, rebuilt, step)


def _observed(meta: dict[str, Any]) -> dict[str, Any] | None:
    """What the agent saw in training; a game of somebody's own is imported if it is trusted."""
    found = meta.get("observed")
    if not isinstance(found, dict) or not isinstance(found.get("game"), str):
        return None
    game(found["game"])
    return {key: found[key] for key in OBSERVED if key in found}


def read(folder: str | Path, step: int | None = None) -> StoredCheckpoint:
    """Read a checkpoint; a damaged newest one falls back to the one before it, loudly."""
    return use(folder, lambda stored: stored, step)


def use(
    folder: str | Path, take: Callable[[StoredCheckpoint], Taken], step: int | None = None
) -> Taken:
    """What `take` makes of a checkpoint; from a newest one that is of no use it goes back, loudly.

    Files with the right checksums can still hold nonsense: what cannot be taken is damaged too.
    """
    found = candidates(Path(folder), step)
    while found:
        path = found.pop(0)
        try:
            return _taken(take, _read(path))
        except Damaged as damage:
            if not path.exists() and step is None:  # the run went on, and removed it meanwhile
                found = candidates(Path(folder), None)
                continue
            what = "is damaged" if path.exists() else "was removed while it was read"
            if not found:
                raise UserError(f"checkpoint {path} {what}: {damage}.") from damage
            print(
                shown(f"WARNING: checkpoint {path} {what} ({damage}); going back to ")
                + found[0].name
                + ".",
                file=sys.stderr,
            )
    raise AssertionError("there is always a candidate")


def _taken(take: Callable[[StoredCheckpoint], Taken], stored: StoredCheckpoint) -> Taken:
    try:
        return take(stored)
    except (UserError, Damaged, OSError, MemoryError):
        raise
    except Exception as error:
        raise Damaged(f"its content is of no use, {described(error).rstrip('.')}") from error


def verify(path: Path) -> dict[str, str]:
    """Check one checkpoint against its manifest and its name: file -> "ok" or what is wrong."""
    manifest = _manifest(path)
    found = {}
    for file in FILES:
        try:
            _checked(path / file, manifest["sha256"])
            found[file] = "ok"
        except Damaged as damage:
            found[file] = str(damage)
    if set(found.values()) == {"ok"}:
        try:
            meta = _read(path).meta
            if isinstance(meta.get("replay"), dict):
                found |= verify_chunks(path.parent.parent, meta["replay"])
        except (Damaged, LookupError, TypeError) as damage:
            found["state.json"] = str(damage)
    return found


def require_same_shapes(model: BaseAlgorithm, stored: StoredCheckpoint) -> None:
    """Refuse a checkpoint of another architecture, naming the first parameter that differs."""
    ours = {name: tuple(t.shape) for name, t in model.capture().parameters.items()}  # type: ignore[attr-defined]
    theirs = {name: tuple(t.shape) for name, t in stored.parameters.items()}
    where = f"checkpoint {stored.path} is of another architecture"
    for name in [*ours, *theirs]:
        if name not in theirs:
            raise UserError(f"{where}: it has no {name}, which the model has.")
        if name not in ours:
            raise UserError(f"{where}: it has {name}, which the model does not have.")
        if ours[name] != theirs[name]:
            raise UserError(
                f"{where}: {name} is {theirs[name]} there and {ours[name]} in the model."
            )


class _Record(dict[str, Any]):
    """A mapping of state.json; a key it lacks is one that its version of reprl did not know."""

    def __init__(self, values: dict[str, Any], path: Path) -> None:
        super().__init__(_mapping(values))
        self.path = path

    def __missing__(self, key: str) -> Any:
        raise UserError(
            f"checkpoint {self.path} was written by another version of reprl (no '{key}')."
        )


def _read(path: Path) -> StoredCheckpoint:
    manifest = _manifest(path)
    data = {file: _checked(path / file, manifest["sha256"]) for file in FILES}
    try:
        record = _Record(json.loads(data["state.json"]), path)
        meta, layouts = _Record(record["meta"], path), _Record(record["layouts"], path)
        if "extras" in meta:
            meta["extras"] = _Record(meta["extras"], path)
        parts = {
            part: _unflatten(_tensors(part, data[f"{part}.safetensors"]), layouts[part])
            for part in SECTIONS
        }
        loop = _mapping(record["loop"])
        counters = _mapping(meta.get("counters", {}))
        for value in counters.values():
            if not isinstance(value, int | float | None):
                raise TypeError(f"{value!r:.40} is no counter")
        _mapping(meta.get("log", {}))
        _require_step(path, manifest["step"], counters.get("num_timesteps", manifest["step"]))
    except (UserError, Damaged):
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
        raise Damaged(f"state.json is not one of reprl's ({described(error)})") from None
    return StoredCheckpoint(**parts, meta=meta, loop=loop, path=path, step=manifest["step"])


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.40} is no mapping")
    return value


def _require_step(path: Path, manifest: int, counter: Any) -> None:
    """Refuse a checkpoint that stands under the step of another one."""
    if counter != manifest:
        raise Damaged(f"manifest.json says step {manifest}, state.json {counter!r:.40}")
    is_named = path.parent.name == "checkpoints" and path.name.isdecimal()
    if is_named and path.name != path_of("", manifest).name:
        raise Damaged(f"it is the checkpoint of step {manifest} under another name")


def _tensors(part: str, data: bytes) -> dict[str, Tensor]:
    """The tensors of a file; the library checks what its header says against its length."""
    try:
        return tensors_from_bytes(data)
    except SafetensorError as error:
        raise Damaged(f"{part}.safetensors cannot be read ({error})") from None


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(guard.read_text(path / "manifest.json"))
        written, hashes, step = manifest["format"], manifest["sha256"], int(manifest["step"])
    except FileNotFoundError:
        raise Damaged("manifest.json is missing") from None
    except OSError as error:
        raise _unreadable(path / "manifest.json", error) from error
    except UserError as error:
        raise Damaged(str(error).rstrip(".")) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Damaged("manifest.json is not a manifest") from None
    if written != FORMAT or not isinstance(hashes, dict):
        raise UserError(
            f"checkpoint {path} has format {written}; this version of reprl reads format {FORMAT}."
        )
    return {**manifest, "step": step}


def _unreadable(path: Path, error: OSError) -> UserError:
    """A disk that does not answer now: the file may be whole, so nothing goes back behind it."""
    return UserError(f"cannot read {path}: {error.strerror}; try again.")


def _checked(path: Path, hashes: dict[str, str]) -> bytes:
    try:
        data = guard.read_bytes(path)
    except FileNotFoundError:
        raise Damaged(f"{path.name} is missing") from None
    except UserError as error:
        raise Damaged(str(error).rstrip(".")) from None
    except OSError as error:
        raise _unreadable(path, error) from error
    if hashlib.sha256(data).hexdigest() != hashes.get(path.name):
        raise Damaged(f"{path.name} does not match its checksum")
    return data


def _flatten(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, list[int]]]:
    # A tensor in another memory layout would come back C-contiguous, and convolutions round
    # differently then: its strides are kept beside it.
    flat = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    layouts = {n: list(t.stride()) for n, t in tensors.items() if not t.is_contiguous()}
    return flat, layouts


def _unflatten(flat: dict[str, Tensor], layouts: dict[str, list[int]]) -> dict[str, Tensor]:
    for name, stride in layouts.items():
        shape = flat[name].shape
        reach = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        if min(stride, default=0) < 0 or reach > flat[name].numel():
            raise UserError(f"the saved layout of {name} is not that of a tensor of its size.")
        laid_out = torch.empty_strided(shape, stride, dtype=flat[name].dtype)
        flat[name] = laid_out.copy_(flat[name])
    return flat


def _write(path: Path, data: bytes) -> str:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
