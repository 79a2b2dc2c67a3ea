"""Every variant: what severity means, its mask, its state, and that only physics change physics."""

import json
import pickle
from itertools import pairwise

import cv2
import numpy as np
import pytest

from reprl.envs.games.breakout import breakout_objects
from reprl.envs.variation import Effect, find, suite, suites, variants
from reprl.envs.variation.drawing import gray
from reprl.envs.variation.lookup import catalogue
from reprl.envs.variation.suites import lacking
from reprl.evaluation.variants import expand, left_out
from tests.envs.console import Console, follow, frames
from tests.helpers import refuses

# modes are chosen before a game: test_modes.py plays them
NAMES = [n for n in variants() if catalogue()[n].family != "mode"]
STRENGTHS = (0.0, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0)
DRAWN = [n for n in NAMES if catalogue()[n].family == "drawing"]
DYNAMIC = [n for n in NAMES if catalogue()[n].family == "dynamics"]
WRITING = [n for n in NAMES if catalogue()[n].family in ("colour", "strobe")]
COLOUR_BYTES = [62, *range(64, 70)]


@pytest.fixture(scope="module")
def screen() -> np.ndarray:
    console = Console()
    for _ in frames(console, 900, np.random.default_rng(0)):
        pass
    return console.screen().copy()


def drawn(variant, screen: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The picture and the mask after one draw."""
    picture, mask = screen.copy(), np.zeros((210, 160), dtype=bool)
    for k, effect in enumerate(variant.build()):
        effect.reset(np.random.default_rng([seed, k]))
        effect.draw(picture, None)
        effect.mask(mask)
    return picture, mask


def change(picture: np.ndarray, screen: np.ndarray) -> float:
    return float(np.abs(picture.astype(int) - screen).sum())


def test_every_variant_is_declared_data() -> None:
    for name in NAMES:
        variant = find(name)
        assert pickle.loads(pickle.dumps(variant)) == variant
        assert json.loads(json.dumps([dict(p.parameters) for p in variant.effects])) == [
            dict(p.parameters) for p in variant.effects
        ]
        assert variant.help.endswith(".")
        has = variant.severity is not None
        assert has == any("severity" in p.parameters for p in variant.effects)
        if has:
            assert find(name, severity=variant.severity) == variant
        else:
            with refuses(name, "severity"):
                find(name, severity=0.5)


@pytest.mark.parametrize(
    "name",
    [n for n in NAMES if catalogue()[n].family in ("drawing", "picture") and n != "flicker"],
)
def test_severity_changes_the_picture_more_and_more(name: str, screen: np.ndarray) -> None:
    changes = [change(drawn(find(name, severity=s), screen)[0], screen) for s in STRENGTHS]
    assert changes[0] == 0
    assert changes == sorted(changes)
    assert changes[2] > 0
    assert changes[-1] > 1.2 * changes[4]
    picture, _ = drawn(find(name), screen)
    assert change(picture, screen) == changes[4]


def test_severity_of_a_background(screen: np.ndarray) -> None:
    changes = [
        change(drawn(find("background_gray", severity=s), screen)[0], screen) for s in STRENGTHS
    ]
    assert changes[0] == 0
    assert all(a < b for a, b in pairwise(changes))
    picture, mask = drawn(find("background_gray"), screen)
    assert (picture[(screen == 0).all(-1)] == 64).all()
    assert (picture == screen)[(screen != 0).any(-1)].all()
    assert not mask.any()


@pytest.mark.parametrize("name", DRAWN)
def test_the_mask_is_where_the_drawing_is(name: str, screen: np.ndarray) -> None:
    # A picture without the colour of any drawing, so that every painted pixel differs.
    for severity in (0.0, 0.3, 0.5, 1.0):
        picture, mask = drawn(find(name, severity=severity), np.full_like(screen, 9))
        assert (mask == (picture != 9).any(-1)).all()
    assert mask.any()


@pytest.mark.parametrize("name", [n for n in NAMES if n not in DRAWN])
def test_other_variants_have_no_distractor(name: str, screen: np.ndarray) -> None:
    assert not drawn(find(name), screen)[1].any()


def test_under_the_objects_hides_nothing(screen: np.ndarray) -> None:
    over, _ = drawn(find("green_lines"), screen)
    under, mask = drawn(find("green_lines_under"), screen)
    empty = (screen == 0).all(-1)
    assert (under[~empty] == screen[~empty]).all()
    assert (under[empty] == over[empty]).all()
    busy = screen.copy()
    busy[98:100, 20:40] = (200, 72, 72)  # a paddle on the first line
    under, mask = drawn(find("green_lines_under"), busy)
    assert (under[98:100, 20:40] == (200, 72, 72)).all()
    assert not mask[98:100, 20:40].any()
    assert mask[98:100, 8:20].all()


def test_parameters_of_the_drawing_family() -> None:
    blank = np.full((210, 160, 3), 10, np.uint8)
    base = {"_target_": "reprl.envs.variation.shapes:Lines", "colour": [200, 100, 50]}

    def pixels(**options) -> np.ndarray:
        return drawn(find({**base, **options}), blank)[1]

    half, _ = drawn(find({**base, "opacity": 0.5, "position_seed": 1}), blank)
    assert sorted(map(tuple, np.unique(half.reshape(-1, 3), axis=0).tolist())) == [
        (10, 10, 10),
        (105, 55, 30),
    ]
    fixed = pixels(position_seed=1)
    assert (fixed == pixels(position_seed=1)).all()
    assert (fixed != pixels(position_seed=2)).any()
    assert pixels(position_seed=1, count=3).sum() == fixed.sum() / 2
    assert (pixels(position_seed=1, count=3) <= fixed).all()
    assert pixels(position_seed=1, count=1, thickness=4).sum() == 4 * fixed.sum() / 6
    vertical = pixels(position_seed=1, direction="vertical")
    assert (vertical.any(0).sum(), vertical.any(1).sum()) == (12, 88)
    games = [drawn(find(base), blank, seed)[1] for seed in range(3)]
    assert (games[0] != games[1]).any()
    assert (games[1] != games[2]).any()


def test_luminance_matched_control_has_the_gray_of_the_player(screen: np.ndarray) -> None:
    picture, mask = drawn(find("green_lines_matched"), screen)
    grays = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    assert set(grays[mask].tolist()) == {110}
    assert (picture[mask] != (200, 72, 72)).any(axis=-1).all()
    for wanted in (0, 1, 60, 141, 142, 200, 255):
        spec = {
            "_target_": "reprl.envs.variation.shapes:Rectangles",
            "colour": [102, 203, 50],
            "luminance": wanted,
        }
        (effect,) = find(spec).build()
        assert gray(effect.colour.tolist()) == wanted


def play(console: Console, count: int, actions: list[int] | None = None) -> list[np.ndarray]:
    """RAM after each frame of a game in which the ball is followed, or of given actions."""
    out = []
    for i in range(count):
        console.act(actions[i] if actions else follow(console.ram, i // 200 % 13 - 6))
        out.append(console.ram.copy())
    return out


@pytest.mark.parametrize("name", [n for n in NAMES if n not in DYNAMIC])
def test_pictures_leave_the_game_alone(name: str) -> None:
    """Whole RAM equal, frame by frame; at their full strength and in play."""
    variant = find(name)
    effects = (variant if variant.severity is None else variant.at(1.0)).build()
    if all(type(e).before_frame is Effect.before_frame for e in effects):
        return
    plain, changed = Console(), Console()
    changed.reset(effects)
    for ours, theirs in zip(play(plain, 900), play(changed, 900), strict=True):
        assert (ours == theirs).all()
    assert breakout_objects(plain.ram).score > 2
    assert (plain.screen() != changed.screen()).any()


@pytest.mark.parametrize(
    ("name", "colour"),
    [
        ("player_white", (214, 214, 214)),
        ("player_red", (144, 28, 0)),
        *((f"player_gray_{level}", (level,) * 3) for level in (74, 111, 142, 170, 192)),
        ("player_matched", (162, 98, 33)),
        ("bricks_blue", (20, 0, 144)),
        ("bricks_green", (92, 186, 92)),
    ],
)
def test_colours_reach_the_screen(name: str, colour: tuple) -> None:
    console = Console()
    console.reset(find(name).build())
    play(console, 60)
    masks = breakout_objects(console.ram).masks()
    where = masks["paddle"] | masks["ball"] if name.startswith("player") else masks["bricks"]
    assert (console.screen()[where] == colour).all()


def test_the_matched_player_looks_the_same_in_gray() -> None:
    assert gray((162, 98, 33)) == gray((200, 72, 72)) == 110


def test_brick_rows_change_with_the_game_and_strobes_within_it() -> None:
    console = Console()

    def colours(name: str, seed: int, severity: float | None = None) -> list[tuple]:
        console.reset(find(name, severity).build(), seed)
        seen = []
        for _ in range(40):
            console.act(0)
            seen.append(tuple(map(tuple, console.screen()[60:93:6, 12].tolist())))
        return seen

    first, again, other = (colours("bricks_resampled", s) for s in (1, 1, 2))
    assert len(set(first)) == 1
    assert first == again
    assert first != other
    changes = [
        sum(a != b for a, b in pairwise(c))
        for c in (colours("strobing_bricks", 1, s) for s in (0.0, 0.25, 0.5, 1.0))
    ]
    assert changes == [0, 10, 20, 39]
    assert colours("strobing_bricks", 1) == colours("strobing_bricks", 1, 1.0)


_FLYING: list = []  # a console and its state with the ball on its way up, kept for all tests


def flight(name: str, severity: float | None = None) -> np.ndarray:
    """The ball's (x, y) in 20 frames of the same flight upwards."""
    if not _FLYING:
        console = Console()
        play(console, 100)
        _FLYING.append((console, console.ale.cloneState(include_rng=True)))
    console, state = _FLYING[0]
    console.ale.restoreState(state)
    console.frame = 0
    console.effects = find(name, severity).build()
    assert all(type(e).draw is Effect.draw for e in console.effects)
    out = []
    for _ in range(20):
        console.act(0)
        ram = console.ram.astype(float)
        # The screen, not only the memory, must show the ball there.
        box = breakout_objects(console.ram).ball
        assert box is not None
        rows, columns = box.slices((210, 160))
        assert console.screen()[rows, columns].any(-1).all()
        out.append((ram[99] + ram[100] / 256, ram[101] + ram[102] / 256))
    return np.array(out)


def test_drift_and_gravity_push_the_games_own_ball() -> None:
    """2 px at once in frame 0 and 10, and the ball flies on from there."""
    plain = flight("original")
    for name, way in {
        "drift_left": (-2, 0),
        "drift_right": (2, 0),
        "gravity_up": (0, -2),
        "gravity_down": (0, 2),
    }.items():
        shift = flight(name) - plain
        assert (shift[:10] == way).all(), name
        assert (shift[10:] == np.array(way) * 2).all(), name
        weaker, stronger = flight(name, 0.25) - plain, flight(name, 1.0) - plain
        assert (weaker[:10] * 2 == way).all()
        assert (stronger[:10] == np.array(way) * 2).all()
        assert (flight(name, 0.0) == plain).all()


def test_a_faster_ball_flies_further_in_each_frame() -> None:
    plain = np.diff(flight("original"), axis=0)[:10]
    for severity in (0.0, 0.25, 0.5, 1.0):
        steps = np.diff(flight("faster_ball", severity), axis=0)[:10]
        assert steps == pytest.approx(plain * (1 + severity), abs=1 / 128)
    assert np.abs(plain).sum(axis=1).min() > 1


@pytest.mark.parametrize("name", DYNAMIC)
def test_changed_physics_stay_a_game(name: str) -> None:
    """At full strength: the ball stays between the walls, meets bricks and paddle, is served."""
    console = Console()
    console.reset(find(name, severity=1.0).build())
    plain = Console()
    differs = False
    for ours, theirs in zip(play(console, 1500), play(plain, 1500), strict=True):
        differs |= bool((ours != theirs).any())
        ball = breakout_objects(ours).ball
        assert ball is None or (6 <= ball.x <= 152 and ball.y >= 31), ball
    assert differs
    assert breakout_objects(console.ram).score > 4


@pytest.mark.parametrize("name", [*NAMES, "green_lines@0.8+strobing_player+drift_left+noise"])
def test_state_is_json_and_continues_exactly(name: str, screen: np.ndarray) -> None:
    class Tape:
        def __init__(self, frame: int = 0) -> None:
            self.ram, self.frame, self.written = np.full(128, 77, np.uint8), frame, []

        def write(self, index: int, value: int) -> None:
            self.written.append((index, value))

    def go(effects: list, tape: Tape, count: int) -> list:
        out: list = []
        for _ in range(count):
            picture = screen.copy()
            for effect in effects:
                effect.before_frame(tape)
                effect.draw(picture, None)
            tape.frame += 1
            out.append(picture)
        return [*out, tape.written]

    def masks(effects: list) -> np.ndarray:
        out = np.zeros((210, 160), dtype=bool)
        for effect in effects:
            effect.mask(out)
        return out

    first, second = find(name).build(), find(name).build()
    for k, effect in enumerate(first):
        effect.reset(np.random.default_rng([3, k]))
    go(first, Tape(), 7)
    for effect, other in zip(first, second, strict=True):
        other.load_state(json.loads(json.dumps(effect.state())))
    assert (masks(first) == masks(second)).all()
    for ours, theirs in zip(go(first, Tape(7), 9), go(second, Tape(7), 9), strict=True):
        assert np.array_equal(ours, theirs)


def test_suites_are_splits_of_known_variants() -> None:
    for name in suites():
        split = suite(name)
        assert list(split) == ["train", "validation", "test"]
        flat = [v for part in split.values() for v in part]
        assert len(flat) == len(set(flat)), name
        assert set(flat) <= set(variants())
        assert all(split.values())
    assert {v for part in suite("all").values() for v in part} == set(variants())
    with refuses("'publised'", "'published'"):
        suite("publised")


def test_a_suite_leaves_out_what_a_game_lacks_and_says_so() -> None:
    here = suite("dynamics", "pong")
    assert here["test"] == ["drift_down", "faster_rally", "lazy_opponent"]
    assert suite("dynamics")["test"] == ["drift_left", "gravity_down", "faster_ball"]
    assert {v for part in suite("all", "pong").values() for v in part} == set(variants("pong"))
    assert "player_red" in lacking("colour", "pong")
    assert "paddle_red" in lacking("colour", "breakout")
    assert lacking("published", "pong") == []
    (sentence,) = left_out(["original", "suite:dynamics/test", "suite:picture"], "pong")
    assert "suite dynamics" in sentence
    assert "gravity_up" in sentence
    assert [v.name for v in expand("suite:dynamics/test", (), "pong")] == here["test"]


def test_other_games_get_the_pictures_but_not_breakouts_ram() -> None:
    assert set(DRAWN) <= set(variants("pong"))
    assert not {*DYNAMIC, "player_red", "strobing_bricks"} & set(variants("pong"))
    with refuses("drift_left'", "'pong'"):
        find("green_lines+drift_left", game="pong").build()
