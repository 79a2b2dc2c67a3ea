"""reprl: does this representation make an RL agent generalize, and where does it look?"""

from importlib import import_module
from typing import Any

__version__ = "0.3.0"


def __getattr__(name: str) -> Any:
    if name == "probe":  # on first use: it costs torch and pandas
        return import_module("reprl.analysis.probe").probe
    raise AttributeError(f"module 'reprl' has no attribute '{name}'")
