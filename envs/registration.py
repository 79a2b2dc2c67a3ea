"""The ids by which gymnasium finds our games, known after `import gymnasium, reprl`.

`gymnasium.make("reprl/Breakout-v0", variant="diagonals")`, or `reprl/Game-v0` with `game=` any
other ALE game; `reprl/CartPolePositions-v0` is CartPole for a memory.
`"reprl.envs.registration:reprl/Breakout-v0"` imports what it needs by itself.
"""

from __future__ import annotations

from gymnasium.envs.registration import register, registry

GAME = "reprl.envs.single:GameEnv"
IDS = {
    "reprl/Breakout-v0": (GAME, {"game": "breakout"}),
    "reprl/Game-v0": (GAME, {}),
    "reprl/CartPolePositions-v0": ("reprl.envs.positions:cartpole_positions", {}),
}


def register_envs() -> None:
    """Make the ids known; asked again, it changes nothing."""
    for name, (entry, arguments) in IDS.items():
        if name not in registry:
            register(id=name, entry_point=entry, kwargs=arguments)


register_envs()
