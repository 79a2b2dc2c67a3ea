"""What the features hold: linear probes of every layer against the game's true objects."""

from reprl.analysis.probe.study import probe

__all__ = ["probe"]
