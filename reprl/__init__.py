"""reprl: does this representation make an RL agent generalize, and where does it look?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprl.api import Trained, train

__version__ = "0.3.0"
__all__ = ["Trained", "__version__", "train"]


def __getattr__(name: str) -> Any:
    # Bad input is refused before torch and pandas are imported.
    if name not in ("Trained", "train"):
        raise AttributeError(f"module 'reprl' has no attribute '{name}'")
    from reprl import api

    return getattr(api, name)
