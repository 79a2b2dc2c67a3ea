"""Small models and run folders, made once."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # players.py, under pytest's importlib mode


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_run(place, seed=0, **overrides):
    """A run folder with one checkpoint of an untrained agent that likes two actions."""
    from reprl import checkpoint
    from reprl.config.schema import load
    from reprl.runs.folder import create
    from reprl.runs.train import make_env, make_model

    settings = {
        "env.size": 36,
        "env.stack": 2,
        "env.n_envs": 2,
        "env.workers": 0,
        "algo.n_steps": 8,
        "algo.batch_size": 16,
        "threads": 1,
        "seed": seed,
        "run_dir": place,
        **overrides,
    }
    config = load([f"{key}={value}" for key, value in settings.items()])
    env = make_env(config)
    model = make_model(config, env)
    with torch.no_grad():
        model.policy.action_net.weight *= 200  # pictures decide, not only the dice
    folder = create(config, command=["reprl", "train"], python_path=[], id="test")
    checkpoint.save(model, folder.path)
    folder.update(status="finished")
    env.close()
    return folder.path


@pytest.fixture(scope="session")
def sweep(tmp_path_factory):
    """Two runs of one method and a run that has no checkpoint yet."""
    place = tmp_path_factory.mktemp("sweep")
    make_run(place / "first", seed=1)
    make_run(place / "second", seed=2, attention="conv", encoder="nature_padded")
    unfinished = make_run(place / "unfinished", seed=3)
    import shutil

    shutil.rmtree(unfinished / "checkpoints")
    return place


@pytest.fixture
def runs(sweep, tmp_path):
    """A copy of the sweep to write into."""
    import shutil

    return Path(shutil.copytree(sweep, tmp_path / "sweep"))


@pytest.fixture(scope="session")
def model(sweep):
    from reprl.checkpoint import load

    return load(sweep / "first")


@pytest.fixture(scope="session")
def masked(sweep):
    from reprl.checkpoint import load

    return load(sweep / "second")
