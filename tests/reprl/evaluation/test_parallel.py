"""Games played by several processes are the games of one, row by row; a failing process is told."""

import os
import signal

import pytest
from players import PixelAgent

from reprl.envs import find
from reprl.envs.processes import WorkerLost
from reprl.errors import UserError
from reprl.evaluation.episodes import Arena
from reprl.evaluation.parallel import ParallelArena
from reprl.evaluation.players import Task
from tests.helpers import refuses

pytestmark = pytest.mark.slow  # plays games

SMALL = {"size": 36, "stack": 2, "game": "breakout"}
TASKS = [Task(find(v), e, 0) for v in ("original", "green_lines") for e in range(3)]


def played(agent, **options):
    games = ParallelArena(n_envs=4, **SMALL, **options).play(agent, TASKS)
    return sorted(games, key=lambda game: str(game.task.key))


def test_processes_play_the_games_that_one_process_plays():
    with Arena(n_envs=3, **SMALL) as arena:
        alone = sorted(arena.play(PixelAgent(), TASKS), key=lambda game: str(game.task.key))
    assert played(PixelAgent(), players=2) == alone


class Refusing(PixelAgent):
    def act(self, *arguments):
        raise UserError("agents=refusing cannot play.")


class Dying(PixelAgent):
    def act(self, *arguments):
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_process_refuses_is_refused_here():
    with refuses("agents=refusing"):
        played(Refusing(), players=2)


def test_a_process_that_dies_is_said():
    with pytest.raises(WorkerLost, match="-9"):
        played(Dying(), players=2)
