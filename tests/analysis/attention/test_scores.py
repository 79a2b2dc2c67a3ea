"""Scores on synthetic masks whose truth is known by hand."""

import numpy as np
import pytest

from reprl.analysis.attention import attention_scores
from reprl.analysis.attention.lag import object_lag
from reprl.analysis.attention.scores import auc, ceiling, chance, energy, over_blocks, pointing

RNG = np.random.default_rng(7)


def squares(count: int, side: int = 3, size: int = 20) -> np.ndarray:
    """A square at a random place in every frame, (N, size, size) bool."""
    masks = np.zeros((count, size, size), dtype=bool)
    for mask in masks:
        y, x = RNG.integers(0, size - side, 2)
        mask[y : y + side, x : x + side] = True
    return masks


def rows(table, metric):
    return table[table["metric"] == metric].set_index("object")


def test_attention_on_the_ball_scores_one_and_nothing_elsewhere():
    ball = squares(30)
    table = attention_scores(
        ball.astype(float), {"ball": ball, "background": ~ball}, np.arange(30) // 10
    )
    for metric in ("energy", "pointing", "auc"):
        assert rows(table, metric).loc["ball", "value"] == pytest.approx(1.0)
    assert rows(table, "energy").loc["background", "value"] == pytest.approx(0.0)
    assert rows(table, "energy").loc["ball", "chance"] == pytest.approx(9 / 400)
    assert set(table["n_frames"]) == {30}
    assert set(table["n_games"]) == {3}


@pytest.mark.parametrize("level", [0.0, 0.37], ids=["black", "uniform"])
def test_a_constant_map_scores_exactly_chance(level):
    ball = squares(12)
    table = attention_scores(np.full(ball.shape, level), {"ball": ball}, np.arange(12) // 4)
    for _, row in table.iterrows():
        assert row["value"] == pytest.approx(row["chance"], abs=1e-6), row["metric"]


def test_auc_by_hand():
    maps = np.array([[[0.9, 0.2], [0.4, 0.4]]])
    mask = np.array([[[True, False], [True, False]]])
    # 0.9 beats both others, 0.4 beats 0.2 and draws with 0.4: 3.5 of 4 pairs.
    assert auc(maps, mask) == pytest.approx([3.5 / 4])


def test_energy_and_ceiling_by_hand():
    maps = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    mask = np.array([[[False, True], [False, True]]])
    assert energy(maps, mask) == pytest.approx([0.6])
    # Two cells, either the upper or the lower row; a mask of one upper pixel gets half at best.
    cells = np.array([[[2.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]])
    single = np.array([[[True, False], [False, False]]])
    assert ceiling(cells, single) == pytest.approx([0.5])


def test_pointing_tolerates_two_pixels_and_splits_ties():
    mask = np.zeros((3, 12, 12), dtype=bool)
    mask[:, 6, 6] = True
    maps = np.zeros(mask.shape)
    maps[0, 6, 8] = 1  # two pixels away
    maps[1, 7, 8] = 1  # sqrt(5) away
    maps[2, 6, 6] = maps[2, 0, 0] = 1
    assert pointing(maps, mask).tolist() == [1.0, 0.0, 0.5]
    assert chance("pointing", mask)[0] == pytest.approx(13 / 144)  # a disk of radius 2


def test_frames_without_the_object_do_not_count():
    ball = squares(10)
    ball[4:] = False
    empty = np.zeros_like(ball)
    table = attention_scores(np.ones(ball.shape), {"ball": ball, "paddle": empty}, np.zeros(10))
    assert set(table["object"]) == {"ball"}
    assert set(table["n_frames"]) == {4}


def test_intervals_are_over_games_not_frames():
    values = np.concatenate([np.full(10, 0.2), np.full(30, 0.6)])
    games = np.concatenate([np.zeros(10, int), np.ones(30, int)])
    once = over_blocks(values, games)
    assert once.value == pytest.approx(0.5)
    assert once.high - once.low > 0.3
    often = over_blocks(np.tile(values, 20), np.tile(games, 20))
    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    assert np.isnan(over_blocks(values[:10], games[:10]).low)  # one game: no interval


def test_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        level = rng.normal(0.5, 0.1, size=8)  # games differ, frames within a game hardly
        values = np.repeat(level, 25) + rng.normal(0, 0.01, 200)
        found = over_blocks(values, np.repeat(np.arange(8), 25))
        hits += found.low <= 0.5 <= found.high
    assert 180 <= hits <= 199  # 95 %; intervals over frames would cover about a third


def test_static_column_tells_following_from_standing_still():
    ball = squares(60)
    following = ball.astype(float)
    standing = np.broadcast_to(ball[:20].mean(axis=0), ball.shape)
    blocks = np.arange(60) // 10
    moving = rows(attention_scores(following, {"ball": ball}, blocks), "energy").loc["ball"]
    fixed = rows(attention_scores(standing, {"ball": ball}, blocks), "energy").loc["ball"]
    assert moving["value"] > 10 * moving["static"]
    assert fixed["value"] == pytest.approx(fixed["static"])


def test_wrong_shapes_and_values_are_refused():
    ball = squares(3)
    with pytest.raises(ValueError, match="mask of ball"):
        attention_scores(np.ones((3, 5, 5)), {"ball": ball}, np.zeros(3))
    with pytest.raises(ValueError, match="not negative"):
        attention_scores(-np.ones(ball.shape), {"ball": ball}, np.zeros(3))


def flight(games: int = 4, length: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A ball that flies to and fro on its own course in each game."""
    masks = np.zeros((games, length, 24, 24), dtype=bool)
    for g in range(games):
        for t in range(length):
            y, x = abs((3 * t + 5 * g) % 40 - 20), abs((2 * t + 7 * g) % 42 - 21)
            masks[g, t, y : y + 2, x : x + 2] = True
    blocks, times = np.divmod(np.arange(games * length), length)
    return masks.reshape(-1, 24, 24), blocks, times


@pytest.mark.parametrize("late", [0, 1, 3])
def test_lag_is_found(late):
    ball, blocks, times = flight()
    maps = np.roll(ball, late, axis=0).astype(float)
    found = object_lag(maps, ball, blocks, times)
    assert found.value == late
    assert found.low <= late <= found.high
    gain = found.curve[found.shifts.index(late)]
    assert gain == found.curve.max()
    assert gain > np.median(found.curve) + 0.1


def test_no_lag_where_nothing_follows_the_ball():
    ball, blocks, times = flight()
    still = np.broadcast_to(RNG.random((24, 24)), ball.shape)
    assert np.isnan(object_lag(still, ball, blocks, times).value)


def test_no_lag_where_the_ball_is_avoided():
    """A dent at the ball: other shifts fit better than the dent, but no better than a still map."""
    ball, blocks, times = flight()
    dent = np.any([np.roll(ball, late, axis=0) for late in range(-2, 5)], axis=0)
    still = np.random.default_rng(0).random((24, 24))
    found = object_lag(1 + still - 0.04 * dent, ball, blocks, times)
    assert found.curve.argmax() in range(7, len(found.shifts) - 1)  # outside the dent
    assert found.curve.max() > np.median(found.curve) + 0.02
    assert np.isnan(found.value)


def test_lag_is_not_sought_across_a_jump_of_the_clock():
    ball, blocks, times = flight(games=1, length=20)
    times = times + 100 * (times >= 10)
    assert object_lag(ball.astype(float), ball, blocks, times).n_frames == 0
