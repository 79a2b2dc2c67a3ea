"""Fixed lists of games: paired, without bias toward short ones, independent of who plays where."""

import numpy as np
import pytest
from players import CatchingAgent, PixelAgent

from reprl.envs import find, make_vec_env
from reprl.evaluation import RandomAgent, evaluate
from reprl.evaluation.episodes import Arena
from reprl.evaluation.players import Task
from reprl.rng import numpy_stream, stream_seed

pytestmark = pytest.mark.slow  # plays games

SMALL = {"size": 36, "stack": 2}


def played(agent, tasks, **options):
    with Arena(**SMALL, **options) as arena:
        games = list(arena.play(agent, tasks))
    return sorted(games, key=lambda game: str(game.task.key))


def tasks_on(variants, episodes, seed=0):
    return [Task(find(v), e, seed) for v in variants for e in range(episodes)]


def test_a_game_is_the_emulators_own_game():
    """Held to a single environment stepped by hand from the same seed with the same actions."""
    (game,) = played(RandomAgent(4), [Task(find("original"), 3, 11)], n_envs=1)
    env = make_vec_env(n_envs=1, training=False, **SMALL)
    env.queue(0, stream_seed(11, "evaluation", "game", 3))
    env.reset()
    uniforms = numpy_stream(11, "evaluation", "act", 3)
    score = steps = 0
    done = False
    while not done:
        _, rewards, dones, infos = env.step(np.array([int(uniforms.random() * 4)]))
        score, steps, done = score + rewards[0], steps + 1, dones[0]
    assert (game.score, game.steps, game.frames) == (score, steps, infos[0]["episode"]["l"])
    assert game.end == "game_over"


@pytest.mark.parametrize(("n_envs", "workers"), [(2, 0), (3, 2)])
def test_slots_and_workers_change_nothing(n_envs, workers):
    tasks = tasks_on(["original", "green_lines"], 3)
    alone = [played(PixelAgent(), [task], n_envs=1)[0] for task in tasks]
    together = played(PixelAgent(), tasks, n_envs=n_envs, workers=workers)
    assert together == sorted(alone, key=lambda game: str(game.task.key))
    assert len({game.trajectory for game in alone}) == len(tasks)  # the agent saw every difference


def test_every_listed_game_is_finished_however_long_it_is():
    """Two long games in a list of short ones: with two slots they hold one slot each."""
    agent = CatchingAgent(lambda episode: 400 if episode in (0, 4) else 0)
    games = played(agent, tasks_on(["original"], 7), n_envs=2)
    assert [game.task.episode for game in games] == list(range(7))
    lengths = [game.steps for game in games]
    short = [n for e, n in enumerate(lengths) if e not in (0, 4)]
    assert min(lengths[0], lengths[4]) > 3 * max(short)
    alone = played(CatchingAgent(lambda _: 400), tasks_on(["original"], 5)[4:], n_envs=1)
    assert alone[0] == games[4]  # taken late, by a slot that had played others, it is the same


def test_pairing_same_start_and_same_uniforms_for_all():
    first, second = PixelAgent(), PixelAgent(see=False)
    tasks = tasks_on(["original", "green_lines"], 2)
    played(first, tasks, n_envs=3)
    played(second, tasks, n_envs=4)
    for episode in (0, 1):
        streams = [
            a.uniforms[v, episode] for a in (first, second) for v in ("original", "green_lines")
        ]
        shortest = min(map(len, streams))
        assert shortest > 50
        assert len({tuple(stream[:shortest]) for stream in streams}) == 1
    assert first.uniforms["original", 0][:20] != first.uniforms["original", 1][:20]


def test_a_blind_agent_plays_the_same_game_on_every_picture():
    frame = evaluate(PixelAgent(see=False), ["original", "green_lines", "diagonals"], 2, **SMALL)
    for column in ("episode_return", "length"):
        values = frame[column].to_numpy().reshape(3, 2)
        assert (values == values[0]).all()


def test_ends_are_recorded():
    # 1000 frames are fewer than a caught game needs, and standing still never scores.
    limited = evaluate(CatchingAgent(lambda _: 10_000), "original", 2, frame_limit=1000, **SMALL)
    assert set(limited["end"]) == {"frame_limit"}
    assert limited["length"].between(1000, 1004).all()
    stuck = evaluate(
        CatchingAgent(lambda _: 10_000), "original", 3, stuck_after=12, n_envs=1, **SMALL
    )
    assert set(stuck["end"]) == {"stuck"}
    assert (stuck["length"] < 600).all()
    over = evaluate(CatchingAgent(lambda _: 0), "original", 2, **SMALL)
    assert set(over["end"]) == {"game_over"}


@pytest.mark.parametrize("cut", [{"stuck_after": 12}, {"frame_limit": 240}])
def test_a_game_after_one_that_was_cut_off_begins_like_any_other(cut):
    tasks = tasks_on(["original", "green_lines"], 2)
    one_after_the_other = played(PixelAgent(), tasks, n_envs=1, **cut)
    alone = [played(PixelAgent(), [task], n_envs=1, **cut)[0] for task in tasks]
    assert one_after_the_other == sorted(alone, key=lambda game: str(game.task.key))
    assert {game.end for game in alone} == {"stuck" if "stuck_after" in cut else "frame_limit"}


def test_sticky_actions_are_paired_too():
    frame = evaluate(PixelAgent(see=False), ["original", "green_lines"], 2, sticky=0.25, **SMALL)
    values = frame["length"].to_numpy().reshape(2, 2)
    assert (values[0] == values[1]).all()
    plain = evaluate(PixelAgent(see=False), "original", 2, **SMALL)
    assert (plain["length"].to_numpy() != values[0]).any()
    assert set(frame["sticky"]) == {0.25}
