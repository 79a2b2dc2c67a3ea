"""`sweep=pbt` under a real Ray Tune: a planted optimum is found, a killed population goes on.

Ray lives in an environment of its own, which `make setup-ray` makes; `make test-ray` runs this.
"""

import os
import signal
from pathlib import Path

import pandas as pd
import pytest

from reprl import checkpoint
from reprl.sweeps.population import TABLE
from tests.ray_nodes import NEEDS_RAY, TOYS, bare, cluster, reprl
from tests.reprl.sweeps.test_slurm import finish, wait_for

__all__ = ["cluster"]  # pytest finds the fixture by its name
pytestmark = NEEDS_RAY

# rates far too small: only those who leave 1e-7 behind learn the game
RUN = [
    *("env=gymnasium", "env.id=catch_gym:Catch-v0", "env.n_envs=4", "device=cpu", "media=0"),
    *("encoder=nature", "encoder.features_dim=32", "algo.n_steps=32", "algo.batch_size=64"),
    *("algo.n_epochs=2", "algo.clip_range=0.2", "algo.gamma=interval(0.5,0.95)"),
    *("total_steps=3072", "eval.episodes=40", "log.every=768", "seed=3", f"--config-dir={TOYS}"),
    *("sweep=pbt", "sweep.members=3", "sweep.interval=768", "sweep.jobs=2"),
    "algo.learning_rate=tag(log,interval(1e-7,2e-3))",
]


def population(place: Path, *more: str) -> list[str]:
    return ["train", "-m", *RUN, f"run_dir={place}", *more]


def table(place: Path) -> pd.DataFrame:
    return pd.read_csv(place / TABLE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    place = tmp_path_factory.mktemp("pbt") / "whole"
    code, output = finish(reprl(bare(), *population(place)))
    print(output)
    assert code == 0, output
    return place, output


def test_members_take_over_from_the_best_and_leave_rates_that_teach_nothing(whole) -> None:
    place, output = whole
    rows = table(place)
    assert len(rows) == 3 * 4
    assert rows["step"].groupby(rows["round"]).nunique().eq(1).all()
    copied = rows.dropna(subset=["copied_from"])
    assert len(copied)
    for row in copied.itertuples():
        before = rows[(rows["round"] == row.round - 1) & (rows["member"] == int(row.copied_from))]
        assert row.parent == before["folder"].item()  # it went on with the other's agent,
        others = rows[rows["round"] == row.round - 1]["score"]
        assert before["score"].item() == others.max()  # who was the best,
        assert row.seed == before["seed"].item()
    first, last = rows[rows["round"] == 1], rows[rows["round"] == 4]
    assert last["score"].max() > first["score"].max() + 0.3
    assert last["algo.learning_rate"].min() > first["algo.learning_rate"].min()
    assert f"best {last['score'].max():.4g}" in output


def test_a_killed_population_goes_on_as_if_nothing_had_happened(whole, tmp_path) -> None:
    straight, _ = whole
    place = tmp_path / "killed"
    process = reprl(bare(), *population(place))
    wait_for(lambda: (place / TABLE).exists() and len(table(place)) >= 7, "third round")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    done = len(table(place))
    assert done < 12
    code, output = finish(reprl(bare(), *population(place)))
    print(output)
    assert code == 0, output
    one, two = table(straight), table(place)
    same = [c for c in one if c not in ("parent", "folder")]  # named by a hash of their place
    pd.testing.assert_frame_equal(one[same], two[same], check_exact=True)
    assert len(list(place.glob("[0-9]*/run.json"))) == 12  # no piece was trained twice
    rows = list(zip(one.itertuples(), two.itertuples(), strict=True))[-3:]
    for a, b in rows:
        name = f"{a.step:012d}"
        for file in checkpoint.FILES:
            ends = [
                root / str(row.folder) / "checkpoints" / name / file
                for root, row in ((straight, a), (place, b))
            ]
            assert ends[0].read_bytes() == ends[1].read_bytes(), file


def test_a_population_on_two_nodes(cluster, tmp_path) -> None:
    address, environment = cluster
    small = ["total_steps=1536", f"sweep.address={address}", "eval.episodes=4"]
    words = [w for w in RUN if not w.startswith(("total_steps", "eval.episodes", "sweep.jobs"))]
    process = reprl(environment, "train", "-m", *words, *small, f"run_dir={tmp_path / 'two'}")
    code, output = finish(process)
    print(output)
    assert code == 0, output
    rows = table(tmp_path / "two")
    assert len(rows) == 6
    jobs = [(tmp_path / "two" / str(folder) / "run.json").read_text() for folder in rows["folder"]]
    nodes = {text.partition('"job": "ray ')[2][:8] for text in jobs}
    assert len(nodes) == 2
