"""Evaluation: full games of a trained agent on every variant, and one game in every picture."""

from reprl.evaluation.episodes import FRAME_LIMIT, STUCK_AFTER, Arena, FinishedGame
from reprl.evaluation.evaluate import COLUMNS, distinct_games, evaluate, evaluate_model, mean_scores
from reprl.evaluation.players import (
    Agent,
    ModelAgent,
    RandomAgent,
    ScriptedPlayer,
    Task,
    as_agent,
)
from reprl.evaluation.twin import TWIN_COLUMNS, twin_evaluation
from reprl.evaluation.variants import expand

__all__ = [
    "COLUMNS",
    "FRAME_LIMIT",
    "STUCK_AFTER",
    "TWIN_COLUMNS",
    "Agent",
    "Arena",
    "FinishedGame",
    "ModelAgent",
    "RandomAgent",
    "ScriptedPlayer",
    "Task",
    "as_agent",
    "distinct_games",
    "evaluate",
    "evaluate_model",
    "expand",
    "mean_scores",
    "twin_evaluation",
]
