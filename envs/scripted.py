"""The scripted agent's place until 0.2: it is in `reprl.envs.games.breakout` now."""

from reprl.envs.games.breakout import FIRE, LEFT, NOOP, RIGHT, ScriptedAgent, folded

BLINDNESS = ScriptedAgent.blindness

__all__ = ["BLINDNESS", "FIRE", "LEFT", "NOOP", "RIGHT", "ScriptedAgent", "folded"]
