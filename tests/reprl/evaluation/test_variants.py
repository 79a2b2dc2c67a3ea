"""Lists of variants: severities, suites, compositions, and games that have no row yet."""

from reprl.envs import find
from reprl.evaluation.campaign import missing
from reprl.evaluation.episodes import FinishedGame
from reprl.evaluation.evaluate import table
from reprl.evaluation.players import RandomAgent, Task
from reprl.evaluation.variants import expand, label
from tests.helpers import refuses
from tests.reprl.test_tables import PROTOCOL


def test_severities_multiply_variants_that_have_one():
    found = expand(["original", "green_lines", "diagonals@0.7", "green_lines@1"], [0.25, 1])
    assert [(v.name, v.severity) for v in found] == [
        ("original", None),
        ("green_lines", 0.25),
        ("green_lines", 1.0),
        ("diagonals", 0.7),
    ]
    assert [label(v) for v in found][1:] == ["green_lines@0.25", "green_lines@1", "diagonals@0.7"]
    assert label(find("green_lines")) == "green_lines"


def test_different_variants_are_played_beside_each_other():
    lines = {"_target_": "reprl.envs.variation.shapes:Lines", "colour": [200, 0, 0]}
    blue = {**lines, "colour": [0, 0, 200]}
    assert len(expand([lines, blue, lines])) == 2
    with refuses("'stripes@0.5'"):
        expand([{**lines, "name": "stripes"}, {**blue, "name": "stripes"}])
    user = "reprl.envs.variation.picture:Noise"
    mixed = expand([f"{user}@0.3+drift_left", f"{user}@0.9+drift_left"])
    tasks = [Task(variant, 0, 0) for variant in mixed]
    played = table(
        [FinishedGame(tasks[0], 1.0, 400, 100, "game_over", "0" * 16)], RandomAgent(4), 0.0
    )
    assert missing(played, tasks, **PROTOCOL) == tasks[1:]
    levels = expand([f"{user}+drift_left"], [0.25, 1])
    assert len({label(variant) for variant in levels}) == 2


def test_suites_and_compositions():
    names = [v.name for v in expand(["suite:published", "green_lines+diagonals", "original"])]
    assert names == [
        *("original", "constant_rectangle", "moving_square", "green_lines", "diagonals"),
        "green_lines+diagonals",
    ]
    assert [v.name for v in expand("suite:published/validation")] == ["constant_rectangle"]
    for wrong, hint in (
        ("suite:publshed", "'published'"),
        ("suite:published/tst", "'test'"),
        ("gren_lines", "'green_lines'"),
    ):
        with refuses(hint):
            expand(wrong)
    with refuses("empty"):
        expand([])
    with refuses("severity=1.5"):
        expand("green_lines", [1.5])
