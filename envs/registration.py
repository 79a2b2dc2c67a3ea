"""The ids by which gymnasium finds our games, known after `import gymnasium, reprl`.

`gymnasium.make("reprl/Breakout-v0", variant="diagonals")`, or `reprl/Game-v0` with `game=` any
other ALE game; `"reprl.envs.registration:reprl/Breakout-v0"` imports what it needs by itself.
"""

from __future__ import annotations

from gymnasium.envs.registration import register, registry

ENTRY = "reprl.envs.single:GameEnv"
IDS = {"reprl/Breakout-v0": {"game": "breakout"}, "reprl/Game-v0": {}}


def register_envs() -> None:
    """Make the ids known; asked again, it changes nothing."""
    for name, arguments in IDS.items():
        if name not in registry:
            register(id=name, entry_point=ENTRY, kwargs=arguments)


register_envs()
