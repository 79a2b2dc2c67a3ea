"""A run that begins at another's checkpoint: `parent=DIR` at its newest, `parent=DIR@step`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprl import checkpoint
from reprl.config.schema import Config
from reprl.distributed.ranks import OneRank
from reprl.errors import UserError
from reprl.naming import completed
from reprl.runs.folder import open_run
from reprl.runs.places import parent_of

if TYPE_CHECKING:
    from reprl.algorithms.base import Algorithm

COURSE = (
    *("env", "encoder", "attention", "auxiliary", "augmentation"),
    *("seed", "threads", "mode", "device", "ranks"),
)


def branch(model: Algorithm, config: Config, ranks: OneRank | None = None) -> None:
    """Give a new agent the state of its parent's checkpoint.

    Where game and agent are the parent's, the run goes on from the parent's step exactly as the
    parent did; otherwise it begins at step 0 with the parent's weights.
    """
    assert config.parent is not None
    path, step = parent_of(config.parent)
    stored = checkpoint.read(path, step)
    checkpoint.require_same_shapes(model, stored)
    weights_only = stored.meta.get("weights_only", False)
    different = ["published weights only"] if weights_only else differences(config, path)
    if not different:
        if stored.step >= config.total_steps:
            raise UserError(
                f"total_steps={config.total_steps} is not beyond the parent's step {stored.step}."
            )
        model.restore(checkpoint.of_rank(stored, 0 if ranks is None else ranks.rank))
    else:
        print(
            f"parent: not the same course ({', '.join(different)}), so only the weights of "
            f"{path} at step {stored.step} are taken; this run begins at step 0 with a fresh "
            "optimizer."
        )
        fresh = model.capture()
        model.restore(replace(fresh, parameters=stored.parameters))


def differences(config: Config, parent: Path) -> list[str]:
    """Keys in which a branch leaves its parent's course; where there are none, all state goes on.

    Device and mode belong to them, because the last bits of a step depend on both.
    """
    if not (parent / "config.yaml").exists():
        return ["no config.yaml"]
    theirs = open_run(parent).config()
    found = [
        name
        for name in COURSE
        if completed(name, getattr(config, name)) != completed(name, getattr(theirs, name))
    ]
    keys: dict[str, Any] = {"_target_": None, "n_steps": None, "optimizer": "adam"}
    if config.mode == theirs.mode == "fast":
        keys["compile"] = True
    # a key that an older configuration does not have stands for its default
    ours, other = ({k: c.algo.get(k, d) for k, d in keys.items()} for c in (config, theirs))
    return found + [f"algo.{key}" for key in keys if ours[key] != other[key]]
