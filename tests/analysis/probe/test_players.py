"""Who plays the probed games, several runs at once, and where the agent believes the ball to be."""

import numpy as np
import pytest

import reprl
from reprl.analysis.explorer.record import record_film, write_film
from reprl.analysis.probe import belief
from reprl.analysis.probe.layers import prober
from reprl.analysis.probe.record import record
from reprl.checkpoint import load
from reprl.cli import main
from reprl.envs.variation import find
from tests.helpers import refuses
from tests.runs import make_run

QUICK = {"frames": 160, "games": 4}
SMALL = {"size": 36, "stack": 2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("players")
    return [make_run(place / f"run{seed}", seed=seed) for seed in (1, 2)]


@pytest.fixture(scope="module")
def model(runs):
    return load(runs[0])


def moments(model, player, seed=0):
    options = {"frames": 30, "games": range(3), "every": 4, "whose": None}
    return record(model, prober(model), (), **options, seed=seed, player=player, settings=SMALL)


def test_each_player_plays_its_own_games_and_the_same_ones_again(model):
    seen = {player: moments(model, player) for player in ("agent", "scripted", "random")}
    for player, found in seen.items():
        again = moments(model, player)
        np.testing.assert_array_equal(
            found.observations["original"], again.observations["original"]
        )
        assert len(found.games) == 30
    first, second, third = (m.observations["original"] for m in seen.values())
    assert (first != second).any()
    assert (second != third).any()
    lives = {player: min(o.lives for o in found.objects) for player, found in seen.items()}
    assert lives["scripted"] == 5  # who sees the ball keeps it
    assert lives["random"] < 5


@pytest.mark.parametrize("player", ["agent", "random"])
def test_a_probe_works_on_the_games_of_every_player(model, player):
    table = reprl.probe(model, player=player, **QUICK, **SMALL)
    assert set(table["player"]) == {player}
    truth = table[(table["source"] == "truth") & (table["label"] == "ball_x")]
    assert truth["r2"].min() > 0.99
    assert {"ball_x", "paddle_x"} <= set(table["label"])


def test_several_runs_are_probed_together(runs, capsys):
    words = ["frames=100", "games=3", "player=scripted"]
    assert main(["probe", *map(str, runs), *words]) == 0
    said = capsys.readouterr().out
    line = next(row for row in said.splitlines() if "[" in row and "original" in row)
    assert "mean over runs" in said
    assert " 2 " in line  # runs behind it
    for run in runs:
        assert (run / "evaluation" / "probes.csv").is_file()
    together = reprl.probe(runs[0].parent, frames=100, games=3, player="scripted")
    assert together["run"].nunique() == 2
    with refuses("no run"):
        reprl.probe([])


def test_a_model_that_has_just_trained_can_be_probed(model):
    batch = model.policy.obs_to_tensor(np.zeros((2, 2, 36, 36), np.uint8))[0]
    model.policy.evaluate_actions(batch, model.policy.get_distribution(batch).get_actions())
    table = reprl.probe(model, frames=100, games=3, player="scripted", **SMALL)
    assert "untrained" in set(table["source"])


def test_belief_reads_a_planted_place(model, monkeypatch):
    """Features that hold the ball's place are read back in raw pixels."""
    player = prober(model)
    draw = np.random.default_rng(0)
    mixing = draw.normal(size=(2, 16))
    real = player.outputs
    places = {}

    def outputs(observations, state=()):
        found, after = real(observations, state)
        held = np.array([places[o.tobytes()] for o in observations]) / 50
        return found._replace(features=held @ mixing + 0.01), after

    def remembered(*arguments, **options):
        found = record(*arguments, **options)
        for picture, objects in zip(found.observations["original"], found.objects, strict=True):
            ball = objects.boxes["ball"]
            places[picture.tobytes()] = ball.center if ball else (0, 0)
        return found

    monkeypatch.setattr(belief, "prober", lambda _: player)
    monkeypatch.setattr(belief, "record", remembered)
    monkeypatch.setattr(player, "outputs", outputs)
    found = belief.believed(model, SMALL)
    assert found is not None
    assert found.object == "ball"
    wanted = np.array([[30.0, 120.0], [100.0, 60.0]])
    np.testing.assert_allclose(found.places(wanted / 50 @ mixing + 0.01), wanted, atol=1.5)


def test_a_film_holds_what_is_believed_in_every_picture(model, tmp_path):
    settings = {**SMALL, "game": "breakout"}
    reader = belief.believed(model, settings)
    variants = [find("green_lines")]
    film = record_film(model, variants, steps=6, settings=settings, belief=reader)
    assert film.belief is not None
    assert film.belief.shape == (6, 2, 2)
    assert (film.belief[:, 0] != film.belief[:, 1]).any()
    place = write_film(film, tmp_path, step=0)
    assert '"belief":{"object":"ball"' in (place / "film.json").read_text()


def test_no_belief_without_truth(model):
    assert belief.believed(model, {**SMALL, "game": "pong"}) is None
