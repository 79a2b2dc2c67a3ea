"""Layers of twins: hand-worked similarity, and noise that is planted must be found."""

import numpy as np
import pytest
import torch
from torch import nn

from reprl.analysis.probe.layers import layer_modules, prober
from reprl.analysis.probe.record import Moments
from reprl.analysis.twins import layers as tool
from reprl.checkpoint import load
from reprl.cli import main
from reprl.schema import LAYERS
from reprl.tables import read
from tests.helpers import refuses
from tests.runs import make_run

ORDER = ["cnn.0", "cnn.2", "cnn.4", "linear.0", "action_net", "value_net"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("layers") / "run", seed=1)


@pytest.fixture
def model(run):
    return load(run)


def test_similarity_by_hand():
    a = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    same = tool.similarity(a, a)
    assert same == pytest.approx({"cka": 1, "cosine": 1, "distance": 0})
    turned = tool.similarity(a, a @ np.array([[0.0, 1.0], [-1.0, 0.0]]))
    assert turned["cka"] == pytest.approx(1)  # blind to a rotation
    assert turned["cosine"] == pytest.approx(0)
    assert turned["distance"] == pytest.approx(np.sqrt(2))  # spread 1, every point moved by root 2
    shifted = tool.similarity(a, a + 3)
    assert shifted["cka"] == pytest.approx(1)  # and to an offset
    assert shifted["distance"] == pytest.approx(np.sqrt(18))
    # x alone against y alone: two kernels without anything in common
    assert tool.linear_cka(a[:, :1], a[:, 1:]) == pytest.approx(0)


def pictures(n=24):
    draw = np.random.default_rng(0)
    return draw.integers(0, 200, (n, 2, 36, 36), dtype=np.uint8)


def moments(clean, varied):
    none = [None] * len(clean)
    return Moments({"original": clean, "v": varied}, {"original": (), "v": ()}, none, none,
                   np.arange(len(clean)))  # fmt: skip


@pytest.mark.parametrize("planted", ORDER[:5])
def test_noise_in_a_layer_is_blamed_on_that_layer(model, planted):
    player = prober(model)
    clean = pictures()
    varied = clean.copy()
    varied[:, :, 0, 0] = 255  # a mark that tells the noise when to come
    clean[:, :, 0, 0] = 254
    marked = {}

    def look(module, inputs):
        marked["now"] = bool((inputs[0][:, 0, 0, 0] > 0.998).all())

    draw = torch.Generator().manual_seed(0)

    def noise(module, inputs, output):
        size = output.std() * 3
        random = torch.randn(output.shape, generator=draw)
        return output + size * random if marked["now"] else output

    first = next(m for m in player.policy.modules() if isinstance(m, nn.Conv2d))
    first.register_forward_pre_hook(look)
    layer_modules(player)[planted].register_forward_hook(noise)
    rows = {r["layer"]: r for r in tool._rows(player, moments(clean, varied), [("v", None)])}
    assert list(rows) == ORDER
    assert rows[planted]["blame"] > 0.7  # the noise is drawn anew in each pass
    assert max(rows, key=lambda name: rows[name]["blame"]) == planted
    assert rows["action_net"]["policy_returned"] == pytest.approx(1, abs=1e-6)
    if planted != "action_net":
        assert rows["value_net"]["value_returned"] == pytest.approx(1, abs=1e-6)


def test_an_offset_is_undone_by_the_mean_and_a_mixture_is_not(model):
    player = prober(model)
    clean = pictures() // 2
    shifted = clean + 40  # the same in every frame: an offset of the first layer, before its ReLU
    rows = list(tool._rows(player, moments(clean, shifted), [("v", None)]))
    assert rows[0]["policy_offset"] == pytest.approx(1, abs=1e-3)
    mixed = np.random.default_rng(1).integers(0, 100, clean.shape, dtype=np.uint8)
    rows = list(tool._rows(player, moments(clean, mixed), [("v", None)]))
    assert rows[0]["policy_offset"] < 0.5
    assert rows[0]["policy_returned"] == pytest.approx(1, abs=1e-6)


def test_the_network_is_left_as_it_was(model):
    player = prober(model)
    clean = pictures(8)
    before = player.outputs(clean)[0].probs
    list(tool._rows(player, moments(clean, clean[::-1].copy()), [("v", None)]))
    np.testing.assert_array_equal(player.outputs(clean)[0].probs, before)
    assert not any(m._forward_hooks for m in player.policy.modules())


def test_the_command_writes_its_table(run, capsys, commands):
    words = ["frames=20", "games=2", "player=random", "variants=green_lines,drift_left"]
    assert main(["layers", str(run), *words]) == 0
    said = capsys.readouterr()
    assert "green_lines" in said.out
    assert "drift_left" in said.err  # changes the game, so it has no twin
    table, damaged = read(run / "evaluation" / "layers.csv", LAYERS)
    assert damaged == 0
    assert list(table["layer"]) == ORDER
    assert list(table.columns) == list(LAYERS.columns)
    commands.refuse(["layers", run], "variants=original", "picture")
    commands.refuse(["layers", run, "variants=drift_left"], "drift_left", "picture")
    with refuses("frames=3", "20"):
        tool.layers(load(run), "green_lines", frames=3)
