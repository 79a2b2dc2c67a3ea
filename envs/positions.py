"""CartPole without velocities: where everything is, not where it goes; a task for a memory.

One observation does not say what to do, two in a row do, so a policy without memory can only delay
the fall. `env.id=reprl/CartPolePositions-v0`, or `gymnasium.make` by the same id.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box

POSITIONS = (0, 2)  # of the cart, and the pole's angle; 1 and 3 are their velocities


def cartpole_positions(**arguments: Any) -> gym.Env[np.ndarray, Any]:
    """Gymnasium's CartPole with what it shows cut down to positions."""
    env = gym.make("CartPole-v1", **arguments)
    whole = env.observation_space
    assert isinstance(whole, Box)
    chosen = list(POSITIONS)
    space = Box(whole.low[chosen], whole.high[chosen], dtype=np.float32)
    return gym.wrappers.TransformObservation(env, lambda seen: seen[chosen], space)
