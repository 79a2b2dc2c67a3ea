"""Agents that ship: they are found by name, play what was published, and begin other runs."""

import json
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from reprl import checkpoint
from reprl.cli import main
from reprl.cli.play import watched
from reprl.envs import make_vec_env, play
from reprl.envs.variation import find
from reprl.errors import UserError
from reprl.evaluation.checkpoints import targets
from reprl.evaluation.episodes import Arena
from reprl.evaluation.players import ModelAgent, Task
from reprl.runs import agents
from tests.reprl.test_training import train


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run, published with its weights."""
    place = tmp_path_factory.mktemp("published")
    assert train(place / "runs" / "small", "total_steps=96", "checkpoint.every=96") == 0
    out = place / "agents"
    assert main(["runs", str(place / "runs"), f"export={out}", "weights=true"]) == 0
    return out / "small"


@pytest.fixture
def by_name(agent: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setattr(agents, "shipped", lambda: {"small": agent})
    monkeypatch.chdir(tmp_path)
    return "agent:small"


def test_weights_are_half_and_nothing_of_training_is_left(agent: Path) -> None:
    step = agent / "checkpoints" / "000000000096"
    weights = load_file(step / "parameters.safetensors")
    assert {t.dtype for t in weights.values() if t.is_floating_point()} == {torch.float16}
    assert not load_file(step / "optimizer.safetensors")
    assert not load_file(step / "state.safetensors")
    whole = checkpoint.read(agent.parents[1] / "runs" / "small")
    for name, tensor in whole.parameters.items():
        torch.testing.assert_close(weights[name].float(), tensor, rtol=1e-3, atol=1e-6)
    assert main(["verify", str(agent)]) == 0


def test_it_is_evaluated_by_name_into_a_folder_of_its_own(by_name: str, agent: Path) -> None:
    short = ["episodes=1", "progress=off", "threads=1"]
    assert main(["evaluate", by_name, "variants=original", *short]) == 0
    work = Path("runs/agents/small")
    games = pd.read_csv(work / "evaluation" / "episodes.csv")
    assert set(games["run"]) == {"small"}
    assert not (agent / "evaluation" / "episodes.csv").exists()
    assert main(["report", str(work), "out=page", "figures=false"]) == 0
    assert "small" in Path("page/report.html").read_text()


def test_where_it_looks_and_what_it_holds_is_asked_by_name(by_name: str, agent: Path) -> None:
    there = sorted(agent.rglob("*"))
    assert main(["attention", by_name, "steps=32"]) == 0
    assert main(["probe", by_name, "frames=200", "games=3", "every=1", "player=random"]) == 0
    work = Path("runs/agents/small")
    scores = pd.read_csv(work / "attention" / "scores.csv")
    probes = pd.read_csv(work / "evaluation" / "probes.csv")
    for table in (scores, probes):
        assert set(table["run"]) == {"small"}
        assert set(table["step"]) == {96}
    assert {"ball", "paddle"} <= set(scores["object"])
    assert (work / "attention" / "original.png").stat().st_size > 1000
    assert probes[probes["source"] == "agent"][["r2", "balanced_accuracy"]].notna().any().all()
    assert sorted(agent.rglob("*")) == there  # it ships as it is


def test_it_begins_a_run_and_is_not_resumed(by_name: str, agent: Path) -> None:
    assert train(Path("next"), f"parent={by_name}", "total_steps=64") == 0
    assert json.loads(Path("next/run.json").read_text())["status"] == "finished"
    env = make_vec_env(n_envs=2, max_frames=1000)
    with pytest.raises(UserError, match="parent="):
        checkpoint.load(agent, env)


def test_an_unknown_name_offers_the_nearest(
    by_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "agent:smal"]) == 2
    assert "'small'" in capsys.readouterr().err
    assert train(Path("next"), "parent=agent:smal") == 2


@pytest.mark.parametrize("name", sorted(agents.shipped()))
def test_a_shipped_agent_plays_its_published_games(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The three shortest: in a long game one rounding of another processor may change its end."""
    folder = agents.shipped()[name]
    assert sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) < 4_000_000
    published = pd.read_csv(folder / "evaluation" / "episodes.csv")
    clean = published[published["variant"] == "original"]
    last = sorted(clean.sort_values("length")["episode"].head(3))
    monkeypatch.chdir(tmp_path)
    (target,), _ = targets(folder)
    model = target.load()
    player = ModelAgent(model, labels=target.labels(model.num_timesteps))
    chosen = clean[clean["episode"].isin(last)]
    seed = int(chosen["eval_seed"].iloc[0])
    tasks = [Task(find("original"), int(e), seed, target.seed) for e in chosen["episode"]]
    assert [t.game_seed for t in tasks] == chosen["game_seed"].tolist()
    with Arena(n_envs=3, **target.settings) as arena:
        games = {g.task.episode: g for g in arena.play(player, tasks)}
    for row in chosen.itertuples():
        assert games[row.episode].score == row.episode_return
        assert games[row.episode].frames == row.length


def test_it_is_watched_as_it_plays() -> None:
    seen, choose = watched(agents.shipped()["imitation_background"], seed=0)
    session = play.HumanGame(
        "green_lines", severity=None, seed=0, view="agent", settings=seen, agent=choose
    )
    for _ in range(300):
        session.turn("noop")
    assert session.score >= 5  # random play has made none or one by then
    assert session.picture().shape == (84, 84, 3)
    session.close()


def test_only_one_can_be_watched() -> None:
    folder = next(iter(agents.shipped().values())).parent
    with pytest.raises(UserError, match=r"agents .*: name one of them"):
        watched(folder, seed=0)
