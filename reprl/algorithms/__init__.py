"""A2C, PPO and imitation, with encoders, attention, auxiliary losses and augmentations."""

from reprl.algorithms.a2c import A2C
from reprl.algorithms.imitation import Imitation
from reprl.algorithms.ppo import PPO
from reprl.algorithms.update import Diverged
from reprl.checkpoint.state import Captured, rebuild

__all__ = ["A2C", "PPO", "Captured", "Diverged", "Imitation", "rebuild"]
