"""reprl: does this representation make an RL agent generalize, and where does it look?"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprl.analysis.probe import probe
    from reprl.api import Trained, train

__version__ = "0.3.0"
__all__ = ["Trained", "__version__", "probe", "train"]
_PLACES = {"probe": "reprl.analysis.probe", "Trained": "reprl.api", "train": "reprl.api"}

if "gymnasium" in sys.modules:  # the ids of our games; for commands it would be imported in vain
    import_module("reprl.envs.registration")


def __getattr__(name: str) -> Any:
    # Bad input is refused before torch and pandas are imported.
    if name not in _PLACES:
        raise AttributeError(f"module 'reprl' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
