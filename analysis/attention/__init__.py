"""Where an agent looks, and whether that is right: maps against the game's ground truth."""

from reprl.analysis.attention.scores import attention_scores

__all__ = ["attention_scores"]
