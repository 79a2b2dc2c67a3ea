"""Maps of features: projections against what they must keep, neighbours by hand, files and page."""

import json
import shutil
from itertools import pairwise

import numpy as np
import pytest

from reprl.analysis.embedding.page import embedded_maps
from reprl.analysis.embedding.projection import affinities, nearest, pca, projected, tsne
from reprl.analysis.embedding.study import ABOUT, FOLDER
from reprl.analysis.load import collect
from reprl.analysis.report import write_report
from reprl.cli import main
from tests.helpers import refuses
from tests.runs import make_run

N = 20


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = make_run(tmp_path_factory.mktemp("embedded") / "run", seed=1)
    words = [f"frames={N}", "games=4", "player=random", "variants=green_lines", "neighbours=3"]
    assert main(["embed", str(place), *words]) == 0
    return place


def test_principal_components_by_hand():
    # Along (3, 4) / 5 with sizes -10, 0, 10, and across it 0, 1, 0 - a third.
    along, across = np.array([[0.6, 0.8]]), np.array([[-0.8, 0.6]])
    x = np.array([[-10.0], [0.0], [10.0]]) * along + np.array([[0.0], [1.0], [0.0]]) * across + 7
    points, shares = pca(x, 2)
    np.testing.assert_allclose(np.abs(points[:, 0]), [10, 0, 10], atol=1e-9)
    np.testing.assert_allclose(np.abs(points[:, 1]), [1 / 3, 2 / 3, 1 / 3], atol=1e-9)
    assert shares.sum() == pytest.approx(1)
    assert shares[0] == pytest.approx(200 / (200 + 2 / 3))
    assert points[np.abs(points[:, 1]).argmax(), 1] > 0  # an axis has one direction only
    flat, none = pca(np.ones((4, 3)), 2)
    assert not flat.any()
    assert not none.any()


def test_affinities_see_as_many_neighbours_as_asked():
    x = np.random.default_rng(0).normal(size=(60, 5))
    p = affinities(x, 12.0)
    assert p.sum() == pytest.approx(1)
    np.testing.assert_allclose(p, p.T)
    rows = np.random.default_rng(1).normal(size=(40, 3))
    one = affinities(rows, 8.0)
    assert (np.diag(one) == 0).all()


def test_tsne_keeps_clusters_apart_and_is_the_same_again():
    draw = np.random.default_rng(0)
    centres = np.array([[0, 0, 0], [10, 0, 0], [0, 10, 0]], float)
    kind = np.repeat(np.arange(3), 25)
    x = centres[kind] + draw.normal(size=(75, 3))
    y = tsne(x, perplexity=10)
    distance = np.linalg.norm(y[:, None] - y[None], axis=-1)
    np.fill_diagonal(distance, np.inf)
    assert (kind[distance.argmin(axis=1)] == kind).all()
    np.testing.assert_array_equal(y, tsne(x, perplexity=10))
    assert np.isfinite(tsne(np.zeros((3, 2)))).all()


def test_neighbours_by_hand():
    line = np.array([[0.0], [1.0], [5.0], [6.0]])
    same = np.eye(4, dtype=bool)
    assert nearest(line, line, 2, same).tolist() == [[1, 2], [0, 2], [3, 1], [2, 1]]
    games = np.array([0, 0, 1, 1])
    apart = games[:, None] == games
    assert nearest(line, line, 1, apart).ravel().tolist() == [2, 2, 1, 1]


def test_the_command_writes_a_map_that_the_page_shows(run):
    about = json.loads((run / FOLDER / ABOUT).read_text())
    clean, varied = about["views"]
    assert [clean["variant"], varied["variant"]] == ["original", "green_lines"]
    assert clean["kept"] == 1  # nothing is nearer to a state than itself
    assert len(clean["points"]) == N
    games = about["games"]
    assert all(games[j] != games[i] for i, row in enumerate(clean["neighbours"]) for j in row)
    results = collect([run])
    [found] = embedded_maps(results, [results.runs[0].method])
    assert found["views"][1]["points"] == varied["points"]
    assert sum(found["explained"]) <= 1
    page, _ = write_report([run], run.parent / "report", figures=False)
    text = page.read_text()
    assert 'id="map-plot"' in text
    assert 'id="representation"' in text


@pytest.mark.parametrize(
    "harm",
    [
        {"version": 2},
        {"games": [0] * 19},
        {"views": []},
        {"size": [1, 1]},
        {"places": []},
    ],
)
def test_a_damaged_map_is_a_note(run, tmp_path, harm):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    path = copy / FOLDER / ABOUT
    path.write_text(json.dumps(json.loads(path.read_text()) | harm))
    results = collect([copy])
    assert embedded_maps(results, [results.runs[0].method]) == []
    assert any("map of features" in warning for warning in results.warnings)


def test_wrong_input_is_refused(run, commands):
    commands.refuse(["embed", run, "method=isomap"], "isomap", "pca")
    commands.refuse(["embed", run, "neighbours=0"], "neighbours=0", "1")
    commands.refuse(["embed", run, "perplexity=1"], "perplexity=1", "2")
    commands.refuse(["embed", run, "variants=gren_lines"], "gren_lines", "green_lines")
    try:
        import umap  # noqa: F401
    except ImportError:
        with refuses("umap", "pip install umap-learn"):
            projected(np.eye(5), "umap")


def test_rounds_lower_the_divergence_of_tsne():
    x = np.random.default_rng(2).normal(size=(40, 6))
    p = affinities(x, 8.0)

    def divergence(y):
        near = 1 / (1 + ((y[:, None] - y[None]) ** 2).sum(-1))
        np.fill_diagonal(near, 0)
        q = near / near.sum()
        some = p > 0
        return float((p[some] * np.log(p[some] / np.maximum(q[some], 1e-12))).sum())

    found = [divergence(tsne(x, perplexity=8, rounds=n)) for n in (4, 50, 400)]
    assert all(a > b for a, b in pairwise(found))
