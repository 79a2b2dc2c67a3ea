"""Finding, checking and composing variants, ours and a user's own."""

import json
import pickle

import numpy as np
import pytest

from reprl.envs.variation import lookup
from reprl.envs.variation.base import Effect, Part, Variant
from reprl.envs.variation.lookup import find, variants
from tests.helpers import refuses


class Paint(Effect):
    """A user's effect: a gray square at a place drawn per game."""

    family = "mine"

    def __init__(self, *, gray: int = 90, severity: float = 0.25) -> None:
        self.gray, self.side, self.count = gray, round(40 * severity), 0

    def reset(self, rng: np.random.Generator) -> None:
        super().reset(rng)
        self.count = 0

    def draw(self, frame, objects) -> None:
        assert self.rng is not None
        self.count += 1
        self.left = int(self.rng.integers(100))
        frame[100 : 100 + self.side, self.left : self.left + self.side] = self.gray

    def counters(self) -> dict:
        return {"count": self.count}


class Need(Effect):
    """An effect without a usual severity."""

    def __init__(self, *, severity: float) -> None:
        self.severity = severity


class Picky(Effect):
    """A user's effect that refuses its parameter."""

    def __init__(self, *, n: int = 3) -> None:
        if n < 5:
            raise ValueError(f"n must be 5\n{n}")


class Ring(Effect):
    """Something drawn around the ball."""

    needs_objects = True

    def draw(self, frame, objects) -> None:
        if objects.ball is not None:
            frame[:3] = 9


class OneName(Effect):
    games = "breakout"


class Misspelt(Effect):
    games = ("Breakout",)


def failing() -> Variant:
    raise OSError("no such file")


def misspelt() -> Variant:
    return Variant("wrong", "custom", effects=(Part(f"{USER}:Paint", {"grey": 7}),))


USER = "user_module"
HERE = __name__
MINE = Variant("mine", "custom", effects=(Part(f"{HERE}:Paint", {"gray": 7}),))


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's module is importable by name; pytest's importlib mode hides test modules."""
    import sys

    monkeypatch.setitem(sys.modules, "user_module", sys.modules[HERE])


def draws(effect: Effect, seed: int, count: int = 3) -> list[np.ndarray]:
    effect.reset(np.random.default_rng(seed))
    return more(effect, count)


def more(effect: Effect, count: int) -> list[np.ndarray]:
    out = []
    for _ in range(count):
        frame = np.zeros((210, 160, 3), np.uint8)
        effect.draw(frame, None)
        out.append(frame)
    return out


def test_original_comes_first_and_has_no_effect() -> None:
    assert variants()[0] == "original"
    assert find("original").build() == []


@pytest.mark.parametrize(
    ("spec", "side", "gray"),
    [
        ("user_module:Paint", 10, 90),
        ("user_module:Paint@0.5", 20, 90),
        ({"_target_": "user_module.Paint", "gray": 11}, 10, 11),
        ({"_target_": "user_module:Paint", "severity": 1.0}, 40, 90),
        ("user_module:MINE", 10, 7),
    ],
)
def test_a_users_own_variant(spec, side: int, gray: int) -> None:
    variant = pickle.loads(pickle.dumps(find(spec)))
    (effect,) = variant.build()
    frame = draws(effect, 0)[0]
    assert sorted(set(frame.flat)) == [0, gray]
    assert (frame > 0).sum() == 3 * side * side


def test_a_users_effect_is_described() -> None:
    variant = find({"_target_": "user_module:Paint", "name": "squares"})
    assert (variant.name, variant.family, variant.severity) == ("squares", "mine", 0.25)
    assert find(variant, severity=0.5).severity == 0.5


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("orignal", {}, ["orignal", "'original'"]),
        ("", {}, ["unknown variant"]),
        ("original", {"severity": 0.5}, ["original", "no severity"]),
        ("user_module:Paint", {"severity": 2}, ["severity=2", "0 to 1"]),
        ("user_module:Paint", {"severity": -0.1}, ["severity=-0.1"]),
        ("user_module:Paint", {"severity": float("nan")}, ["severity=nan"]),
        ("user_module:Paint", {"severity": True}, ["severity=True"]),
        ("user_module:Paint@2", {}, ["severity=2.0"]),
        ("user_module:Paint@much", {}, ["'much'"]),
        ("user_module:Paint@0.1", {"severity": 0.2}, ["severity=0.2"]),
        ("user_module:Nothing", {}, ["user_module:Nothing", "import"]),
        ("no_such_module:Thing", {}, ["no_such_module"]),
        ({"_target_": "user_module:Paint", "grey": 3}, {}, ["grey", "'gray'"]),
        ({"_target_": "user_module:MINE", "gray": 3}, {}, ["gray"]),
        ({"gray": 3}, {}, ["_target_"]),
        ({"_target_": "user_module:json"}, {}, ["neither"]),
        ("user_module:Picky", {}, ["user_module:Picky", "ValueError"]),
        ({"_target_": "user_module:Picky", "n": "x"}, {}, ["user_module:Picky", "TypeError"]),
        ("user_module:failing", {}, ["user_module:failing", "OSError"]),
        ("user_module:misspelt", {}, ["user_module:Paint", "grey"]),
        ("user_module:Need", {}, ["user_module:Need", "severity"]),
        ("user_module:OneName", {}, ["games='breakout'", "tuple"]),
        ("user_module:Misspelt", {}, ["unknown game", "'Breakout'", "'breakout'"]),
        (
            "user_module:Ring",
            {"game": "boxing"},
            ["user_module:Ring", "games = ('breakout', 'freeway', 'pong')"],
        ),
        (
            "user_module:Ring+noise",
            {"game": "boxing"},
            ["user_module:Ring", "breakout, freeway, pong only"],
        ),
        (Variant("mine", "custom", games=("Pong",)), {}, ["unknown game", "'pong'"]),
        (
            Variant("mine", "custom", effects=(Part("user_module:Paint", {"grey": 7}),)),
            {},
            ["grey"],
        ),
        (
            Variant("mine", "custom", effects=(Part("user_module:Paint", {"severity": 7}),)),
            {},
            ["severity=7"],
        ),
        (7, {}, ["7"]),
    ],
)
def test_wrong_input_is_one_clear_sentence(spec, options: dict, words: list[str]) -> None:
    with refuses(*words):
        find(spec, **options)


def test_a_variant_is_refused_by_a_game_that_cannot_have_it() -> None:
    only = Variant("ball_thing", "dynamics", games=("breakout",))
    assert find(only) is only
    with refuses("'ball_thing'", "'pong'", "breakout"):
        find(only, game="pong")


def test_composition_keeps_order_severities_and_games(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Variant("ball_thing", "dynamics", games=("breakout",), effects=(Part("a:b"),))
    monkeypatch.setattr(lookup, "catalogue", lambda: {"ball_thing": other})
    both = find("user_module:Paint@0.5+ball_thing")
    assert both.name == "user_module:Paint@0.5+ball_thing"
    assert both.family == "mine+dynamics"
    assert both.games == ("breakout",)
    assert both.severity == 0.5
    assert [p.target for p in both.effects] == ["user_module:Paint", "a:b"]
    assert find("user_module:Paint+ball_thing", severity=1).effects[0].parameters["severity"] == 1
    with refuses("'bal_thing'", "'ball_thing'"):
        find("user_module:Paint+bal_thing")


def test_different_variants_have_different_names() -> None:
    weak, strong = (find(f"user_module:Paint@{s}+drift_left") for s in (0.3, 0.9))
    assert weak.name == "user_module:Paint@0.3+drift_left"
    assert (weak.name, weak.severity) != (strong.name, strong.severity)
    assert find(weak, severity=0.9).name == "user_module:Paint+drift_left"  # all parts have it now
    lines = {"_target_": "reprl.envs.variation.shapes:Lines", "colour": [200, 0, 0]}
    specs = [
        {"_target_": "user_module:Paint"},
        {"_target_": "user_module:Paint", "gray": 90, "severity": 0.25},  # its own defaults
        {"_target_": "user_module:Paint", "gray": 11},
        {"_target_": "user_module:Paint", "gray": 11, "name": "dark"},
        {**lines, "count": 3},
        {**lines, "count": 4},
        {**lines, "colour": [200, 0, 1], "count": 3, "position_seed": 123456, "thickness": 2},
    ]
    *names, long = (find(spec).name for spec in specs)
    assert names == [
        "user_module:Paint",
        "user_module:Paint",
        "user_module:Paint(gray=11)",
        "dark",
        "reprl.envs.variation.shapes:Lines(colour=[200 0 0] count=3)",
        "reprl.envs.variation.shapes:Lines(colour=[200 0 0] count=4)",
    ]
    assert len(long) < 100
    assert long != find({**specs[-1], "count": 2}).name
    assert not set("+@,/") & set(long)


def test_a_severity_without_default_is_given_with_the_name() -> None:
    for spec, severity in (("user_module:Need@0.3", None), ("user_module:Need", 0.3)):
        found = find(spec, severity)
        assert found.severity == found.build()[0].severity == 0.3


def test_an_effect_that_needs_objects_is_tried_with_them() -> None:
    assert find("user_module:Ring").name == "user_module:Ring"


def test_a_variant_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulator for every queued game would be slow."""
    tried = []
    monkeypatch.setattr(lookup, "attempt", lambda variant, game: tried.append(game))
    for known in (find("green_lines+noise"), find("user_module:Paint@0.5")):
        tried.clear()
        find(known)
        find(known.at(0.125))
        assert tried == []
    find(known, game="pong")
    assert tried == ["pong"]


def test_state_is_json_and_continues_exactly() -> None:
    (effect,) = find("user_module:Paint").build()
    draws(effect, 5)
    kept = json.loads(json.dumps(effect.state()))
    (other,) = find("user_module:Paint").build()
    other.load_state(kept)
    assert other.count == 3
    for ours, theirs in zip(more(effect, 5), more(other, 5), strict=True):
        assert (ours == theirs).all()
