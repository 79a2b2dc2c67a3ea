"""Probes of small agents in real games: controls, labels, a ball that is carried, refusals."""

from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pytest
import torch

import reprl
from reprl.analysis.probe.labels import labels_of, matched
from reprl.analysis.probe.layers import activations, pixels, prober, untrained
from reprl.analysis.probe.study import _require_enough
from reprl.checkpoint import load
from reprl.cli import main
from reprl.envs import game
from reprl.envs.objects import Box, Grid, Objects
from reprl.schema import PROBES
from reprl.tables import read
from tests.helpers import refuses
from tests.runs import make_run

QUICK = {"frames": 160, "games": 4, "player": "scripted"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("probed") / "run", seed=1)


@pytest.fixture(scope="module")
def model(run):
    return load(run)


@pytest.fixture(scope="module")
def said(run):
    """What the command says; its table is in the run folder."""
    words = [f"{key}={value}" for key, value in QUICK.items()]
    with redirect_stdout(StringIO()) as out:
        assert main(["probe", str(run), "variants=green_lines", *words]) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def table(run, said):
    there, damaged = read(run / "evaluation" / "probes.csv", PROBES)
    assert damaged == 0
    return there


def value(table, source, label, variant="original", column="r2", layer=None):
    rows = table[(table["source"] == source) & (table["label"] == label)]
    rows = rows[rows["variant"] == variant]
    rows = rows if layer is None else rows[rows["layer"] == layer]
    assert len(rows), (source, label, variant)
    return rows[column].to_numpy()


def test_the_truth_is_read_wholly_and_shuffled_labels_not_at_all(table):
    for label in ("ball_x", "ball_y", "paddle_x", "ball_speed"):
        assert value(table, "truth", label).min() > 0.99
        assert value(table, "shuffled", label).max() < 0.3
    for label in ("ball_dx", "ball_dy"):
        assert value(table, "truth", label, column="balanced_accuracy").min() > 0.95
        assert value(table, "shuffled", label, column="balanced_accuracy").max() < 0.8
    assert value(table, "truth", "ball_x", column="error").max() < 1


def test_every_layer_is_read_clean_and_under_the_variant(table, said):
    layers = ["cnn.0", "cnn.2", "cnn.4", "linear.0", "action_net", "value_net"]
    for source in ("agent", "untrained", "shuffled"):
        for variant in ("original", "green_lines"):
            part = table[(table["source"] == source) & (table["variant"] == variant)]
            assert list(dict.fromkeys(part["layer"])) == layers
    assert list(table.columns) == list(PROBES.columns)
    # the truth is the same in both pictures, the picture is not
    for column in ("r2", "error"):
        clean, varied = (
            value(table, "truth", "ball_x", variant, column)
            for variant in ("original", "green_lines")
        )
        np.testing.assert_array_equal(clean, varied)
    errors = [value(table, "pixels", "ball_x", v, "error") for v in ("original", "green_lines")]
    assert errors[0] != errors[1]
    assert set(table["source"]) == {"agent", "untrained", "pixels", "shuffled", "truth"}
    assert "linear.0" in said
    assert "paddle_y" in said.partition("left out: ")[2]


def test_a_network_that_carries_the_ball_is_read(model, monkeypatch):
    from reprl.analysis.probe import study

    truth = {}

    def carried(player, observations, state=()):
        found = activations(player, observations, state)
        ball = truth[len(observations)]
        noise = np.random.default_rng(0).normal(size=(len(ball), 20))
        return found | {"planted": np.hstack([ball[:, None] / 30, 0.05 * noise]).astype("f4")}

    def remembered(fit, read):
        fit, read = matched(fit, read)
        for labels in (fit, read):
            truth[len(labels.frames)] = labels.values[:, labels.names.index("ball_x")]
        return fit, read

    monkeypatch.setattr(study, "activations", carried)
    monkeypatch.setattr(study, "matched", remembered)
    table = reprl.probe(model, size=36, stack=2, **QUICK)
    assert value(table, "agent", "ball_x", layer="planted")[0] > 0.9
    assert value(table, "agent", "ball_y", layer="planted")[0] < 0.5
    assert value(table, "shuffled", "ball_x", layer="planted")[0] < 0.3


def test_layers_are_what_the_network_computes(model):
    player = prober(model)
    pictures = np.random.default_rng(0).integers(0, 256, (40, 2, 36, 36), dtype=np.uint8)
    found = activations(player, pictures)
    outputs, _ = player.outputs(pictures)
    np.testing.assert_allclose(found["linear.0"], outputs.features, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found["value_net"][:, 0], outputs.values, rtol=1e-3, atol=1e-4)
    assert (found["cnn.0"] >= 0).all()  # behind the ReLU
    before = {name: p.clone() for name, p in player.policy.named_parameters()}
    state = torch.get_rng_state()
    fresh = activations(untrained(player, 0), pictures)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, before[name]) for name, p in player.policy.named_parameters())
    assert {k: v.shape for k, v in fresh.items()} == {k: v.shape for k, v in found.items()}
    assert not np.allclose(fresh["cnn.0"], found["cnn.0"])
    np.testing.assert_array_equal(
        activations(untrained(player, 0), pictures)["cnn.0"], fresh["cnn.0"]
    )


def test_a_large_picture_is_shrunk_by_means():
    picture = np.zeros((1, 4, 84, 84), np.uint8)
    picture[0, 0, 0, 0] = 255
    found = pixels(picture)
    assert found.shape == (1, 4 * 42 * 42)
    assert found[0, 0] == 0.25
    assert pixels(np.full((2, 2, 36, 36), 255, np.uint8)).shape == (2, 2 * 36 * 36)


def moment(ball, bricks):
    boxes = {"ball": ball and Box(*ball, 2, 4), "paddle": Box(20, 189, 16, 4)}
    return Objects(boxes, {"bricks": Grid(np.array(bricks, bool))}, score=3, lives=5)


def test_labels_by_hand():
    now = [moment((80, 104), [[1, 0]]), moment((9, 50), [[1, 1]]), moment(None, [[0, 0]])]
    then = [moment((72, 108), [[1, 0]]), None, None]
    found = labels_of(now, then, game("breakout"), (84, 84))
    assert found.frames.tolist() == [0]  # the second has no step before, the third no ball
    at = dict(zip(found.names, found.values[0], strict=True))
    assert at["ball_x"] == 42  # the pixel that holds its middle: 81 * 84 / 160 = 42.5
    assert at["ball_y"] == 42  # 106 * 84 / 210 = 42.4
    assert (at["ball_dx"], at["ball_dy"]) == (1, 0)  # to the right and up
    assert at["ball_speed"] == pytest.approx(np.hypot(8 * 84 / 160, 4 * 84 / 210))
    assert at["paddle_x"] == 14  # 28 * 84 / 160 = 14.7
    assert (at["bricks_left"], at["score"], at["lives"]) == (1, 3, 5)
    assert found.names.count("bricks_each") == 2
    assert "paddle_dx" not in found.names  # only of the tracked object


def test_another_game_is_asked_for_its_own_objects():
    boxes = {"ball": Box(80, 100, 2, 4), "paddle": Box(140, 90, 4, 16), "opponent": None}
    now, then = Objects(boxes), Objects(boxes | {"ball": Box(76, 104, 2, 4)})
    found = labels_of([now, now], [then, then], game("pong"), (84, 84))
    assert found.names == [
        *("ball_x", "ball_y", "ball_dx", "ball_dy", "ball_speed", "paddle_x", "paddle_y"),
        *("lives", "score"),
    ]
    assert found.left_out == {"opponent": "in view in 0% of the frames"}


def test_labels_that_hardly_vary_are_left_out_and_named():
    some = []
    for x in range(40):
        some.append(Objects({"paddle": Box(x, 189, 16, 4)}, score=x // 38, lives=5))
    labels = labels_of(some, some, game("breakout"), (84, 84))
    kept, _ = matched(labels, labels)
    assert kept.names == ["paddle_x"]
    assert {"paddle_y", "lives", "score"} <= set(kept.left_out)


def test_wrong_input_is_refused(model, run, commands):
    commands.refuse(["probe", run, "frames=5"], "frames=5", "100")
    commands.refuse(["probe", run, "player=scripte"], "player", "'scripted'")
    commands.refuse(["probe", run, "variants=gren_lines"], "gren_lines", "'green_lines'")
    commands.refuse(["probe", "agent:imitatio"], "imitatio", "'imitation'")
    few = labels_of(*[[moment((9, 50), [[1]])] * 40] * 2, game("breakout"), (84, 84))
    with refuses("frames=99", "40", "60"):
        _require_enough(few, few, 99)
    with refuses("frames=100 gives", "to fit with every object in view", "needs 60"):
        reprl.probe(model, frames=100, player="random", size=36, stack=2)
    with refuses("boxing", "breakout"):
        reprl.probe(model, game="boxing", size=36, stack=2)
    with refuses("games=2", "3"):
        reprl.probe(model, games=2)
    with refuses("policy"):
        prober(object())
