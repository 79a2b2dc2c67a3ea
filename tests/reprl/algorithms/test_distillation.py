"""Distillation: labels are the teacher's own probabilities on the learner's states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reprl import checkpoint
from reprl.algorithms import PPO, Distillation
from reprl.algorithms.distillation import Teacher
from reprl.config.schema import load
from reprl.envs import make_vec_env
from reprl.policy import player_of
from reprl.runs.places import teacher_folder
from tests.helpers import refuses
from tests.runs import make_run

SMALL: dict[str, Any] = {"n_steps": 16, "updates": 2, "batch_size": 16, "seed": 3}
OTHER = {"_target_": "reprl.encoders.NaturePadded", "features_dim": 12}


def env(**more: Any) -> Any:
    return make_vec_env(**({"n_envs": 2, "seed": 1, "size": 36, "stack": 2} | more))


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a 36 px agent that has learned nothing, but has a firm opinion."""
    return make_run(tmp_path_factory.mktemp("teacher") / "run", steps=(0, 64))


def distillation(teacher: Path, env_: Any = None, **more: Any) -> Distillation:
    given: dict[str, Any] = SMALL | {"encoder": OTHER, "teacher": str(teacher)} | more
    return Distillation("CnnPolicy", env_ or env(), **given)


def test_labels_are_the_teachers_probabilities(teacher: Path) -> None:
    """Of each state of the rollout, and softer by the temperature."""
    agent = player_of(checkpoint.load(teacher))
    for temperature in (1.0, 2.0):
        model = distillation(teacher, temperature=temperature).learn(32)
        (chunk,) = model.rollout_buffer.chunks
        for t in range(16):
            stacks = np.stack([model.rollout_buffer._stack(chunk, t, e) for e in range(2)])
            probs = agent.outputs(stacks, ())[0].probs ** (1 / temperature)
            probs /= probs.sum(1, keepdims=True)
            assert np.allclose(chunk["probs"][t], probs, atol=1e-6)


def test_the_mixture_by_hand(teacher: Path) -> None:
    expert = Teacher(teacher, 1000, 0, temperature=1.0)
    labels = np.tile([0.0, 0.25, 0.75, 0.0], (1000, 1))
    learner = np.full(1000, 3)
    assert (expert.mix(labels, learner, 0.0) == 3).all()
    alone = expert.mix(labels, learner, 1.0)
    assert set(alone) == {1, 2}
    assert 0.7 < (alone == 2).mean() < 0.8
    assert 0.45 < (expert.mix(labels, learner, 0.5) == 3).mean() < 0.55


def test_another_encoder_learns_what_the_teacher_does(teacher: Path) -> None:
    few = {"n_steps": 64, "updates": 60, "batch_size": 32, "learning_rate": 2e-3}
    model = distillation(teacher, beta=0.5, **few)
    agent = player_of(checkpoint.load(teacher))

    def apart() -> float:
        rng, game = np.random.default_rng(0), env(seed=9)
        observations, gaps = game.reset(), []
        for _ in range(20):
            ours = player_of(model).outputs(observations, ())[0].probs
            theirs = agent.outputs(observations, ())[0].probs
            gaps.append(np.abs(ours - theirs).sum(1).mean() / 2)
            observations, *_ = game.step(rng.integers(4, size=2))
        return float(np.mean(gaps))

    before = apart()
    model.learn(256)
    assert apart() < 0.6 * before


def test_it_goes_on_exactly_even_if_the_teacher_has_gone_on(teacher: Path, tmp_path: Path) -> None:
    import shutil

    place = tmp_path / "teacher"
    shutil.copytree(teacher, place)
    whole = distillation(place).learn(64).capture()
    captured = distillation(place).learn(32).capture()
    later = checkpoint.load(place)
    with torch.no_grad():
        later.policy.action_net.bias += 1.0
    later.num_timesteps = 128
    checkpoint.save(later, place)
    model = distillation(place)
    assert model.expert is not None
    assert model.expert.step == 128
    model.restore(captured)
    assert model.expert.step == 64
    model.learn(32, reset_num_timesteps=False)
    ended = model.capture()
    for name, tensor in whole.parameters.items():
        assert torch.equal(tensor, ended.parameters[name]), name
    shutil.rmtree(place / "checkpoints" / "000000000064")
    later.num_timesteps = 64
    checkpoint.save(later, place)
    with refuses(str(place), "not the agent that this run began with"):
        distillation(place).restore(captured)


def test_bad_input(teacher: Path, tmp_path: Path) -> None:
    with refuses("algo.teacher=None", "agent:NAME"):
        Distillation("CnnPolicy", env(), **SMALL)
    with refuses("no teacher", "nowhere"):
        distillation(tmp_path / "nowhere")
    with refuses("agent", "imitatio", "'imitation'"):
        teacher_folder("agent:imitatio")
    with refuses(str(teacher), "observation_space", "(2, 36, 36)", "(3, 36, 36)"):
        distillation(teacher, env(stack=3))
    with refuses(str(teacher), "action_space", "Discrete(4)", "Discrete(6)"):
        distillation(teacher, env(game="pong"))
    with refuses(str(teacher), "env.gap=1", "env.gap=2"):
        distillation(teacher, env(gap=2))
    with refuses("temperature=0", "0.01 to 100"):
        distillation(teacher, temperature=0)
    with refuses("algo.expert", "Distillation"):
        load(["algo=distillation", "+algo.expert.skill=1"])


def test_the_learner_can_be_loaded_without_its_teacher(teacher: Path, tmp_path: Path) -> None:
    model = distillation(teacher).learn(32)
    checkpoint.save(model, tmp_path)
    import shutil

    moved = teacher.rename(teacher.with_name("elsewhere"))
    try:
        again = checkpoint.load(tmp_path)
        assert type(again) is Distillation
        assert not isinstance(again, PPO)
    finally:
        shutil.move(moved, teacher)
