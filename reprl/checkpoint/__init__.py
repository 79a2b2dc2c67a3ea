"""Checkpoints: the whole state of a run on disk after an update, and back in a model.

`storage` writes and reads a checkpoint's files, `state` takes a model's state apart into named
sections, `serialization` turns settings into plain data, `files` finds checkpoints by their step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reprl.checkpoint.files import steps

if TYPE_CHECKING:
    from reprl.checkpoint.storage import (
        FILES,
        SECTIONS,
        Damaged,
        StoredCheckpoint,
        load,
        of_rank,
        ranks_of,
        read,
        require_same_shapes,
        save,
        save_weights,
        use,
        verify,
    )

__all__ = [
    "FILES",
    "SECTIONS",
    "Damaged",
    "StoredCheckpoint",
    "load",
    "of_rank",
    "ranks_of",
    "read",
    "require_same_shapes",
    "save",
    "save_weights",
    "steps",
    "use",
    "verify",
]


def __getattr__(name: str) -> Any:
    # Bad input is refused before torch is imported, and finding checkpoints needs no torch.
    if name not in __all__:
        raise AttributeError(f"module 'reprl.checkpoint' has no attribute '{name}'")
    from reprl.checkpoint import storage

    return getattr(storage, name)


def __dir__() -> list[str]:
    return __all__
