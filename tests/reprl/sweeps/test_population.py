"""`sweep=pbt` without Ray: what it refuses, what members begin with, and who came from whom."""

import importlib.util
from pathlib import Path

import pytest

from reprl.cli import main
from reprl.sweeps.plan import PopulationSettings
from reprl.sweeps.population import Lineage, drawn, plan, require_same, said_of, within
from reprl.sweeps.search import Interval
from tests.helpers import refuses

RUN = [
    *("env=gymnasium", "device=cpu", "env.n_envs=2", "total_steps=256", "algo.batch_size=16"),
    *("algo.n_steps=16", "algo.clip_range=0.2", "sweep=pbt", "sweep.members=3"),
    "sweep.interval=100",
]
RATE = "algo.learning_rate=tag(log,interval(1e-6,1e-2))"
GAMMA = "algo.gamma=0.9,0.99,0.999"


def test_a_population_is_planned_from_the_command_line(tmp_path: Path) -> None:
    made = plan([*RUN, RATE, GAMMA, "seed=5", f"run_dir={tmp_path}"], [])
    assert made.about == PopulationSettings(members=3, interval=100)
    assert (made.rounds, [made.end_of(n) for n in (1, 2, 3)]) == (3, [100, 200, 256])
    begun = [made.beginning(member) for member in range(3)]
    again = plan([*RUN, RATE, GAMMA, "seed=5", f"run_dir={tmp_path}"], [])
    assert begun == [again.beginning(member) for member in range(3)]
    assert len({values["algo.learning_rate"] for values in begun}) == 3
    for values in begun:
        assert 1e-6 <= float(values["algo.learning_rate"]) <= 1e-2
        assert values["algo.gamma"] in ("0.9", "0.99", "0.999")
    job = made.piece(1, 2, begun[1], seed=6, parent=None)
    assert job.config.total_steps == 200
    assert job.config.seed == 6
    assert job.config.algo["learning_rate"] == begun[1]["algo.learning_rate"]
    assert job.config.algo["gamma"] == float(begun[1]["algo.gamma"])
    assert job.config.eval.every == 100  # a member is judged at the end of a round
    other = made.piece(1, 2, {**begun[1], "algo.gamma": "0.9"}, seed=6, parent=None)
    assert (other.identity == job.identity) == (begun[1]["algo.gamma"] == "0.9")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([RATE, "sweep.members=1"], ["sweep.members=1"]),
        ([RATE, "sweep.interval=0"], ["sweep.interval=0"]),
        ([RATE, "sweep.interval=16"], ["sweep.interval=16", "rollout"]),
        ([RATE, "sweep.interval=256"], ["sweep.interval=256", "total_steps=256"]),
        ([RATE, "sweep.quantile=0.7"], ["sweep.quantile=0.7"]),
        ([RATE, "sweep.resample=2"], ["sweep.resample=2"]),
        ([RATE, "sweep.address=nowhere"], ["sweep.address=nowhere", "HOST:PORT"]),
        ([RATE, "sweep.trials=3"], ["sweep.members", "sweep.trials"]),
        ([RATE, "eval.every=0"], ["eval.every=0"]),
        ([RATE, "parent=runs/x"], ["parent=runs/x", "leave it out"]),
        ([RATE, "hydra/launcher=ray"], ["hydra/launcher=ray"]),
        ([RATE, "seed=1,2"], ["seed=1,2"]),
        ([RATE, "algo.clip_range={kind: linear, start: 0.2, end: 0.0}"], ["algo.clip_range"]),
        ([], ["sweep=pbt has nothing"]),
        (["env.n_envs=2,4"], ["env.n_envs", "cannot change"]),
        (["algo.n_steps=16,32"], ["algo.n_steps", "cannot change"]),
        (["algo.learning_rate=interval(0.5,2)"], ["algo.learning_rate"]),
        (["algo.gama=0.9,0.99"], ["gama", "gamma"]),
    ],
)
def test_what_a_population_cannot_be_is_one_sentence(
    words: list[str], said: list[str], tmp_path: Path
) -> None:
    keys = {word.partition("=")[0] for word in words}
    rest = [word for word in RUN if word.partition("=")[0] not in keys]
    with refuses(*said):
        plan([*rest, *words, f"run_dir={tmp_path}"], [])


def test_keys_of_a_population_alone_say_what_is_missing() -> None:
    for word, said in {
        "sweep.interval=5": "sweep=pbt",
        "sweep.quantile=0.2": "sweep=pbt",
        "sweep.members=2": "sweep.interval",
    }.items():
        with refuses(word.partition("=")[0], said):
            from reprl.sweeps.plan import settings_of

            settings_of([word], [])


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is here")
def test_without_ray_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "-m", *RUN, RATE, f"run_dir={tmp_path / 'p'}"]) == 2
    said = capsys.readouterr().err
    assert "Ray Tune" in said
    assert "reprl[ray]" in said
    assert not (tmp_path / "p").exists()


def test_cfg_shows_the_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "-m", *RUN, RATE, "seed=7", f"run_dir={tmp_path}", "--cfg"]) == 0
    said = capsys.readouterr().out
    assert "3 members" in said
    assert "member 2, seed 9: algo.learning_rate=" in said


def test_another_population_needs_another_folder(tmp_path: Path) -> None:
    one = plan([*RUN, RATE, f"run_dir={tmp_path}"], [])
    require_same(one, "2.60.0")
    require_same(one, "2.60.0")
    with refuses("population.json", "2.60.0", "2.61.0"):
        require_same(one, "2.61.0")
    with refuses("population.json", "space", "run_dir="):
        require_same(plan([*RUN, RATE, GAMMA, f"run_dir={tmp_path}"], []), "2.60.0")
    (tmp_path / "population.json").write_text("nothing")
    with refuses("population.json", "cannot be read"):
        require_same(one, "2.60.0")


def test_numbers_are_drawn_by_their_logarithm_and_kept_in_their_interval() -> None:
    log = Interval(1e-6, 1e-2, log=True)
    assert drawn(log, 0.5) == pytest.approx(1e-4)
    assert drawn(Interval(1.0, 3.0), 0.5) == 2.0
    assert within(log, 1.0) == 1e-2
    assert within(log, 1e-9) == 1e-6
    assert within(Interval(1, 8, whole=True), 3.6) == 4


def row(number: int, member: int, score: float, **more: object) -> dict[str, object]:
    found = {"round": number, "member": member, "score": score, "step": 100 * number, "rate": 0.1}
    return found | {"copied_from": "", "seed": 0, "parent": "", "folder": "", "other": 1} | more


def test_a_lineage_is_kept_in_order_and_followed_back(tmp_path: Path) -> None:
    lineage = Lineage(tmp_path / "population.csv", ("rate",))
    lineage.add(row(1, 1, 5.0, folder="b1"))
    lineage.add(row(1, 0, 1.0, folder="a1"))
    lineage.add(row(2, 0, 7.0, folder="a2", parent="b1", copied_from=1, rate=0.12))
    lineage.add(row(2, 1, 6.0, folder="b2", parent="b1"))
    lineage.add(row(2, 1, 6.0, folder="b2", parent="b1"))  # a round that is decided again
    assert [(r["round"], r["member"]) for r in lineage.rows] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    text = lineage.file.read_text().splitlines()
    assert text[0] == "round,member,copied_from,seed,step,score,rate,parent,folder"
    assert text[3] == "2,0,1,0,200,7.0,0.12,b1,a2"
    best = lineage.best()
    assert best is not None
    assert best["folder"] == "a2"
    assert [r["folder"] for r in lineage.way(0)] == ["b1", "a2"]
    said = said_of(best, ("rate",), 2)
    assert said == "round 2/2 member 0: step 200, score 7  rate=0.12, copied from member 1"
    lineage.add(row(2, 0, float("-inf"), folder="a2", parent="b1"))  # it diverged
    best = lineage.best()
    assert best is not None
    assert best["folder"] == "b2"
    assert "score failed" in said_of(lineage.rows[2], ("rate",), 2)
