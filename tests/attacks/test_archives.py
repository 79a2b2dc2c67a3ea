"""A model of Stable-Baselines3 is a pickle: it is loaded after trust=true, never before."""

from __future__ import annotations

import base64
import io
import json
import os
import zipfile
from pathlib import Path

import cloudpickle
import pandas as pd
import pytest
from stable_baselines3 import A2C, PPO

import reprl
from reprl.cli import main
from reprl.envs import make_vec_env
from reprl.evaluation import evaluate
from reprl.schema import FILES, PROBES
from reprl.sweeps.cluster import job
from reprl.sweeps.cluster.job import Launch, Spec, Worker
from reprl.tables import read

PLAY = ["variants=original", "episodes=2", "workers=0", "progress=off", "agents=none"]


class Boom:
    """Writes a marker when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.marker,)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stock SB3's PPO, as its users save it."""
    env = make_vec_env(n_envs=2, seed=1, size=36, stack=2)
    place = tmp_path_factory.mktemp("sb3")
    PPO("CnnPolicy", env, n_steps=8, batch_size=16, seed=3, device="cpu").save(place / "agent.zip")
    A2C("CnnPolicy", env, seed=3, device="cpu").save(place / "other.zip")
    env.close()
    return place / "agent.zip"


def crafted(source: Path, file: Path, marker: Path) -> Path:
    """The same archive with a policy class whose pickle runs code."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "data":
                values = json.load(io.BytesIO(data))
                code = base64.b64encode(cloudpickle.dumps(Boom(marker))).decode()
                values["policy_class"] = {":type:": "x", ":serialized:": code}
                data = json.dumps(values).encode()
            new.writestr(name, data)
    return file


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("evaluate", "episodes=2"),
        ("attention", "steps=16"),
        ("probe", "frames=160"),
        ("layers", "variants=green_lines"),
        ("intervene", "frames=20"),
        ("breaking", "frames=16"),
        ("embed", "frames=60"),
    ],
)
def test_nothing_is_unpickled_before_trust(
    command: str, word: str, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = tmp_path / "marker"
    evil = crafted(saved, tmp_path / "evil.zip", marker)
    assert main([command, str(evil), word]) == 2
    assert main([command, str(evil), word, "trust=false"]) == 2
    assert main([command, str(evil), word, "trust=stable_baselines3"]) == 2
    said = capsys.readouterr().err
    assert said.count("trust=true") == 3
    assert not marker.exists()
    assert main([command, str(evil), "trust=true", word]) == 2  # what it makes is no policy
    assert marker.exists()  # so the attack is one
    assert "cannot be loaded" in capsys.readouterr().err


def test_a_trusted_model_is_probed_as_in_a_script(saved: Path, tmp_path: Path) -> None:
    words = {"frames": "160", "games": "4", "player": "scripted"}
    out = tmp_path / "out"
    told = [f"{key}={value}" for key, value in words.items()]
    assert main(["probe", str(saved), *told, "trust=true", f"out={out}"]) == 0
    there, damaged = read(out / FILES["probes"], PROBES)
    assert damaged == 0
    model = PPO.load(saved, device="cpu")
    numbers = {"frames": 160, "games": 4, "player": "scripted"}
    same = reprl.probe(model, **numbers, size=36, stack=2, labels={"run": "agent"})
    columns = ["variant", "source", "layer", "label"]
    measured = [t.set_index(columns)["error"].sort_index() for t in (there, same)]
    pd.testing.assert_series_equal(*measured, rtol=1e-5)
    assert {"cnn.0", "linear.0", "action_net", "value_net"} <= set(there["layer"])
    assert set(there["method"]) == {"sb3-ppo"}


def test_a_trusted_model_plays_as_in_a_script(saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["evaluate", str(saved), *PLAY, "trust=true", f"out={out}"]) == 0
    found = pd.read_csv(out / "evaluation" / "episodes.csv")
    own = evaluate(PPO.load(saved, device="cpu"), "original", 2)
    columns = ["episode", "episode_return", "length", "game_seed", "train_seed", "step"]
    assert found[columns].to_dict("list") == own[columns].to_dict("list")
    assert set(found["method"]) == {"sb3-ppo"}
    assert main(["attention", str(saved), "steps=16", "trust=true", f"out={out}"]) == 0
    assert (out / "attention" / "original.png").stat().st_size > 1000
    assert main(["report", str(out), "figures=false", f"out={tmp_path / 'page'}"]) == 0


def test_its_results_lie_beside_it(saved: Path) -> None:
    other = saved.with_name("other.zip")
    assert main(["evaluate", str(other), *PLAY, "trust=true", "deterministic=true"]) == 0
    found = pd.read_csv(saved.with_name("other") / "evaluation" / "episodes.csv")
    assert set(found["method"]) == {"sb3-a2c"}


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", None])
def test_what_is_no_model_is_said(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.zip"
    if content is None:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("data", "[1]")
    else:
        file.write_bytes(content)
    assert main(["evaluate", str(file), "trust=true"]) == 2
    assert "is not a model that Stable-Baselines3 saved" in capsys.readouterr().err


def test_other_commands_take_no_archive(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(saved), "trust=true"]) == 2
    assert main(["train", f"parent={saved}@8", "trust=true"]) == 2
    assert main(["verify", str(saved)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3
    assert all("agent.zip" in line for line in said)


def test_a_parent_is_unpickled_only_when_trusted(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = tmp_path / "marker"
    evil = crafted(saved, tmp_path / "evil.zip", marker)
    assert main(["train", f"parent={evil}", f"run_dir={tmp_path / 'run'}"]) == 2
    assert main(["report", str(evil)]) == 2
    assert "trust=true" in capsys.readouterr().err
    assert not marker.exists()


def test_trust_reaches_a_node_that_inherits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of Ray has the environment of its own raylet, not that of the command."""
    spec = Spec("0" * 12, "000_x", ("seed=0",), (), 1)
    named = {"REPRL_TRUST": "mine_of,true", "REPRL_TRUST_FOLDERS": "/somewhere"}
    Launch("l", tmp_path, tmp_path, (spec,), False, None, None, named).write()
    launch = Launch.read(tmp_path / ".launcher" / "l" / "launch.json")
    seen = tmp_path / "seen"
    script = f"import os; open({str(seen)!r}, 'w').write(os.environ.get('REPRL_TRUST', ''))"
    real = job.Running

    def shell(task: Spec, todo: list[str], **options: object) -> job.Running:
        return real(task, [todo[0], "-c", script], **options)  # type: ignore[arg-type]

    monkeypatch.setattr(job, "Running", shell)
    monkeypatch.delenv("REPRL_TRUST", raising=False)
    Worker(launch, spec).run()
    assert seen.read_text() == "mine_of,true"
