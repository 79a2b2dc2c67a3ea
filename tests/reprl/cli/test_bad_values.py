"""Values that mean nothing, or more than a machine has, are one sentence before anything starts."""

from __future__ import annotations

import inspect
import time
from pathlib import Path

import pytest

from reprl.cli import main
from reprl.config.schema import load
from reprl.runs import resources
from reprl.settings import CLASSES, NOT_HERE, WITHOUT_RANGE

DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "+algo.foo=1"], "there is no key 'algo.foo' for PPO"),
        (["train", "+algo.gama=1"], "Did you mean 'gamma'?"),
        (["train", "+algo.use_sde=true"], "algo.use_sde=True cannot be set"),
        (["train", "+algo._init_setup_model=false"], "algo._init_setup_model=False cannot be set"),
        (["train", "+algo.stats_window_size=-5"], "algo.stats_window_size=-5 must be"),
        (["train", "+algo.policy=MlpPolicy"], "algo.policy=MlpPolicy cannot be set"),
        (["train", "+algo.tensorboard_log="], "algo.tensorboard_log= cannot be set"),
        (["train", "+algo.seed=3"], "it is set with seed="),
        (["train", "=5"], "cannot read '=5'"),
        (["train", "auxiliary=[none]"], "auxiliary=none"),
        (["train", "encoder._target_="], "encoder._target_= is empty"),
        (["train", "algo.learning_rate={}"], "algo.learning_rate={} is empty"),
        (["train", "run_dir=???"], "run_dir=???"),
        (["train", "--config-dir="], "--config-dir= is empty"),
        (["resume", ".", "--config-dir="], "--config-dir= is empty"),
        (["evaluate", ".", "severities="], "severities= is empty"),
        (["evaluate", ".", f"checkpoint={DIGITS}"], "checkpoint=9999"),
        (["train", f"seed={DIGITS}"], "more digits"),
        (["train", f"parent=.@{DIGITS}"], "the step after @"),
        (["report", ".", "out="], "out= is empty"),
        (["report", ".", f"out={'x' * 300}"], "out=xxx"),
        (["train", "algo.n_steps=1000000"], "needs 210 GB of memory, and this machine has"),
        (["train", "-m", "seed=0,1", "seed=2,3"], "seed is given twice, as 'seed=0,1'"),
        (["train", "-m", "seed=range(1000000)"], "more than 10,000 jobs"),
        (["train", "-m", "seed=range(200)", "env.n_envs=range(8,80)"], "more than 10,000 jobs"),
    ],
)
def test_what_means_nothing_is_refused(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(resources, "memory", lambda: 23 << 30)
    began = time.process_time()
    assert main(arguments) == 2
    assert time.process_time() - began < 20
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert len(error) < 1500
    assert list(tmp_path.iterdir()) == []


def test_the_keys_of_an_algorithm_are_those_of_its_constructor() -> None:
    from reprl.algorithms import A2C, PPO, Distillation, Imitation, Pretraining
    from reprl.algorithms.on_policy import OnPolicy

    ours = set(inspect.signature(OnPolicy.__init__).parameters)
    parts = {"encoder", "attention", "auxiliary", "augmentation", "self", "args", "kwargs"}
    for cls in (A2C, PPO, Imitation, Distillation, Pretraining):
        if cls is Imitation:
            ours -= {"actor_loss_coef", "momentum"}  # refused from here on
        theirs = set(inspect.signature(cls.stock.__init__).parameters)
        own = set(inspect.signature(cls.__init__).parameters)
        if cls is Distillation:  # it is taught otherwise
            own |= set(inspect.signature(Imitation.__init__).parameters) - {"expert"}
        known = {*CLASSES[cls.__name__], *WITHOUT_RANGE[cls.__name__], *NOT_HERE}
        assert (ours | theirs | own) - parts == known & (ours | theirs | own), cls
        assert known - NOT_HERE.keys() <= ours | theirs | own, cls


def test_memory_is_estimated_for_what_is_kept() -> None:
    picture = 84 * 84
    needed, why = resources.estimate(load(["algo.n_steps=10000", "env.n_envs=8"]))
    assert why.startswith("algo.n_steps=10000 x env.n_envs=8")
    assert needed == pytest.approx(80_000 * 4 * picture, rel=0.05)
    assert resources.estimate(load(["mode=fast", "algo.n_steps=10000"]))[0] < needed / 3
    batch = resources.estimate(load(["algo.n_steps=4096", "algo.batch_size=32768"]))
    assert batch[1] == "algo.batch_size=32768"
    assert resources.memory() > 1 << 28


def test_rllibs_buffer_is_estimated_with_whole_stacks() -> None:
    picture, kept = 84 * 84, 300_000
    needed, why = resources.estimate(load(["algo=apex", f"algo.buffer_size={kept}"]))
    assert why == f"algo.buffer_size={kept}"
    assert needed == pytest.approx(kept * 4 * picture, rel=0.05)
    ours = resources.estimate(load(["algo=dqn", f"algo.buffer_size={kept}"]))[0]
    assert ours == pytest.approx(kept * picture, rel=0.05)
    single = resources.estimate(
        load(["algo=apex", f"algo.buffer_size={kept}", "env.stack=1", "encoder=nature"])
    )
    assert single[0] == pytest.approx(kept * picture, rel=0.05)


def test_many_emulators_are_announced(capsys: pytest.CaptureFixture[str]) -> None:
    resources.say_start(load([]))
    assert capsys.readouterr().err == ""
    resources.say_start(load(["env.n_envs=1e3", "algo.n_steps=8"]))
    assert "starting 1,000 emulators takes about 150 s" in capsys.readouterr().err
