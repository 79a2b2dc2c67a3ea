"""The old place of `dead_units` and the mask monitor; they are in reprl.algorithms.diagnostics."""

from reprl.algorithms.diagnostics import MaskMonitor, dead_units

__all__ = ["MaskMonitor", "dead_units"]
