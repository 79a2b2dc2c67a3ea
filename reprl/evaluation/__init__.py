"""Evaluation: a trained agent -> full games on every variant, and the same game in every picture."""

from reprl.evaluation.agents import Agent, ModelAgent, RandomAgent, as_agent
from reprl.evaluation.arena import FRAME_LIMIT, STUCK_AFTER, Arena, Game, Task
from reprl.evaluation.runner import COLUMNS, distinct_games, evaluate, evaluate_model
from reprl.evaluation.selection import expand
from reprl.evaluation.twin import TWIN_COLUMNS, twin_evaluation

__all__ = [
    "COLUMNS",
    "FRAME_LIMIT",
    "STUCK_AFTER",
    "TWIN_COLUMNS",
    "Agent",
    "Arena",
    "Game",
    "ModelAgent",
    "RandomAgent",
    "Task",
    "as_agent",
    "distinct_games",
    "evaluate",
    "evaluate_model",
    "expand",
    "twin_evaluation",
]
