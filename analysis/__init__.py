"""From episodes and run folders to statistics, tables, plots and the report.

The names are loaded when first used: light modules of this package must not cost pandas or torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprl.analysis.attention.scores import attention_scores
    from reprl.analysis.gap import generalization_gap
    from reprl.analysis.load import collect
    from reprl.analysis.report import write_report

__all__ = ["attention_scores", "collect", "generalization_gap", "write_report"]
_HOMES = {
    "attention_scores": "reprl.analysis.attention.scores",
    "collect": "reprl.analysis.load",
    "generalization_gap": "reprl.analysis.gap",
    "write_report": "reprl.analysis.report",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'reprl.analysis' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*_HOMES]
