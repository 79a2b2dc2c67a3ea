"""Intrinsic rewards: an agent is paid for what it has not seen, beside what the game pays."""

from reprl.intrinsic.base import IntrinsicReward
from reprl.intrinsic.rnd import RND

__all__ = ["RND", "IntrinsicReward"]
