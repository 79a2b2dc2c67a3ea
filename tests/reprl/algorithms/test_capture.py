"""Stopping and continuing elsewhere changes nothing: no bit of a parameter, no value of the log."""

import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import (
    VecCheckNan,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
)

from reprl.algorithms import A2C, PPO, Captured, rebuild
from tests.helpers import refuses
from tests.reprl.algorithms.parts import ENCODER, FLIP, spread
from tests.toys.catch import Catch

pytestmark = pytest.mark.slow  # trains

EXTRAS: dict[str, Any] = {
    "encoder": ENCODER,
    "auxiliary": spread(coef={"kind": "cosine", "start": 0.3, "end": 0.1}),
    "augmentation": FLIP,
}
LINEAR = {"kind": "linear", "start": 1e-3, "end": 0.0, "warmup": 0.2}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ppo": (PPO, {"n_steps": 8, "batch_size": 12, "n_epochs": 2, "learning_rate": LINEAR}),
    "a2c": (A2C, {"n_steps": 3, "optimizer": "rmsprop_tf", "ent_coef": LINEAR}),
}
TOTAL, HALF = 192, 96


class CaptureAt(BaseCallback):
    """Captures between two updates, as a training loop would."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step, self.captured = step, None

    def _on_rollout_start(self) -> None:
        if self.model.num_timesteps == self.step:
            self.captured = self.model.capture()

    def _on_step(self) -> bool:
        return True


def fingerprint(model: Any) -> str:
    """All of a model's state in one hash, what is pending in its log included."""
    captured = model.capture()
    digest = hashlib.sha256()
    for part in (captured.parameters, captured.optimizer, captured.state):
        for name in sorted(part):
            digest.update(name.encode() + part[name].contiguous().numpy().tobytes())
    digest.update(json.dumps(captured.meta, sort_keys=True).encode())
    return digest.hexdigest()


def write(captured: Captured, folder: Path) -> None:
    for part in ("parameters", "optimizer", "state"):
        tensors = {k: v.contiguous() for k, v in getattr(captured, part).items()}
        save_file(tensors, folder / f"{part}.safetensors")
    (folder / "meta.json").write_text(json.dumps(captured.meta))


def read(folder: Path) -> Captured:
    parts = [load_file(folder / f"{p}.safetensors") for p in ("parameters", "optimizer", "state")]
    return Captured(*parts, meta=json.loads((folder / "meta.json").read_text()))


def resume(folder: str) -> None:
    """Runs in a new process: read, rebuild, continue, print each one's hash."""
    torch.set_num_threads(1)
    for place in sorted(Path(folder).iterdir()):
        captured = read(place)
        model = rebuild(captured.meta, Catch())
        model.restore(captured)
        model.learn(TOTAL - model.num_timesteps, reset_num_timesteps=False)
        print(fingerprint(model))


def straight(kind: str, folder: Path, **arguments: Any) -> Any:
    cls, settings = KINDS[kind]
    model = cls("CnnPolicy", Catch(), seed=2, device="cpu", **settings, **arguments)
    callback = CaptureAt(HALF)
    model.learn(TOTAL, callback=callback)
    assert callback.captured is not None
    write(callback.captured, folder)
    return model


def resumed_elsewhere(folder: Path) -> list[str]:
    code = f"from tests.reprl.algorithms.test_capture import resume; resume({str(folder)!r})"
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_new_process_continues_exactly(tmp_path: Path) -> None:
    """Both algorithms, plain and fast, without extras and with all of them."""
    runs: dict[str, tuple[str, dict[str, Any]]] = {
        "1": ("a2c", {}),
        "2": ("a2c", EXTRAS),
        "3": ("a2c", EXTRAS | {"mode": "fast", "compile": False}),
        "4": ("ppo", {}),
        "5": ("ppo", EXTRAS),
        "6": ("ppo", EXTRAS | {"mode": "fast", "compile": False}),
    }
    truth = []
    for name, (kind, extras) in runs.items():
        (tmp_path / name).mkdir()
        truth.append(fingerprint(straight(kind, tmp_path / name, **extras)))
    assert resumed_elsewhere(tmp_path) == truth


def test_compiled_code_continues_exactly_in_a_new_process(tmp_path: Path) -> None:
    """Both processes compile for themselves; what they compute must be the same to the last bit."""
    truth = []
    for name, kind in (("1", "a2c"), ("2", "ppo")):
        (tmp_path / name).mkdir()
        model = straight(kind, tmp_path / name, **EXTRAS, mode="fast", instrument_every=2)
        assert model.compiled is True
        truth.append(fingerprint(model))
    assert resumed_elsewhere(tmp_path) == truth


def test_a_loss_of_state_is_seen(tmp_path: Path) -> None:
    """The comparison above can fail: leave one part out and the continuation differs."""
    model = straight("ppo", tmp_path, **EXTRAS)
    truth = fingerprint(model)
    for part in ("random.numpy", "random.torch", "stream.auxiliary", "stream.modules", "env"):
        captured = read(tmp_path)
        if part == "env":
            captured.state[part] = env_twin()
        else:
            captured.state[part][2000 if "numpy" not in part else 300] ^= 1
        other = rebuild(captured.meta, Catch())
        other.restore(captured)
        other.learn(TOTAL - HALF, reset_num_timesteps=False)
        assert fingerprint(other) != truth, part


def env_twin() -> torch.Tensor:
    env = Catch(seed=77)
    env.reset()
    return torch.frombuffer(bytearray(env.snapshot()), dtype=torch.uint8)


def test_without_an_environment_it_predicts(tmp_path: Path) -> None:
    model = straight("a2c", tmp_path, **EXTRAS)
    captured = model.capture()
    other = rebuild(json.loads(json.dumps(captured.meta)))
    other.restore(captured)
    observation = Catch(seed=3).reset()
    ours, theirs = (m.predict(observation, deterministic=True)[0] for m in (model, other))
    assert np.array_equal(ours, theirs)


def test_a_model_that_only_predicts_leaves_the_random_streams_alone() -> None:
    small: dict[str, Any] = {"seed": 0, "n_steps": 4, "batch_size": 8, "n_epochs": 1}
    captured = PPO("CnnPolicy", Catch(), **small).learn(16).capture()

    def draws() -> list[float]:
        return [random.random(), float(np.random.rand()), torch.rand(1).item()]

    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    expected = draws()
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    rebuild(captured.meta).restore(captured)
    assert draws() == expected


def test_a_capture_of_another_kind_is_refused_by_the_setting() -> None:
    small: dict[str, Any] = {"seed": 0, "device": "cpu", "n_steps": 4}
    captured = A2C("CnnPolicy", Catch(), optimizer="rmsprop_tf", **small).learn(16).capture()
    others: list[tuple[list[str], dict[str, Any]]] = [
        (["mode=plain", "mode=fast"], {"mode": "fast", "optimizer": "rmsprop_tf"}),
        (["optimizer=RMSpropTFLike", "optimizer=Adam"], {"optimizer": "adam"}),
        (["optimizer=RMSpropTFLike", "optimizer=RMSprop "], {}),
        (["n_envs=4", "n_envs=2"], {"env": Catch(n_envs=2), "optimizer": "rmsprop_tf"}),
    ]
    for names, settings in others:
        other = A2C("CnnPolicy", **{"env": Catch(), "compile": False, **small, **settings})
        before = other.policy.value_net.weight.clone()
        with refuses(*names):
            other.restore(captured)
        assert torch.equal(other.policy.value_net.weight, before)
    del captured.meta["optimizer"]  # as written before this was noted
    rebuild(captured.meta, Catch()).restore(captured)


def test_that_a_run_was_compiled_is_known_before_its_next_update() -> None:
    small: dict[str, Any] = {"seed": 0, "device": "cpu", "n_steps": 4}
    model = A2C("CnnPolicy", Catch(), mode="fast", **small)
    assert model.capture().meta["compiled"] is None
    model.require_compiled(True)
    assert model.capture().meta["compiled"] is True


def test_memory_layout_of_the_last_observation_is_kept() -> None:
    model = PPO("CnnPolicy", Catch(), seed=0, n_steps=4, batch_size=8, n_epochs=1).learn(16)
    model._last_obs = np.ascontiguousarray(model._last_obs.transpose(0, 2, 3, 1)).transpose(
        0, 3, 1, 2
    )
    strides, values = model._last_obs.strides, model._last_obs.copy()
    captured = model.capture()
    model._last_obs = None
    model.restore(captured)
    assert model._last_obs.strides == strides
    assert np.array_equal(model._last_obs, values)


def test_wrappers_with_a_state_of_their_own_are_refused_by_name() -> None:
    small: dict[str, Any] = {"seed": 0, "n_steps": 4, "batch_size": 8, "n_epochs": 1}
    for wrapper in (
        lambda env: VecNormalize(env, norm_obs=False),
        lambda env: VecTransposeImage(VecFrameStack(env, 2), skip=True),
        VecMonitor,
    ):
        env = wrapper(Catch())
        name = "VecFrameStack" if isinstance(env, VecTransposeImage) else type(env).__name__
        with refuses(name):
            PPO("CnnPolicy", env, **small).learn(16).capture()
    PPO("CnnPolicy", VecCheckNan(Catch()), **small).learn(16).capture()


def test_the_devices_own_random_state_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """No CUDA here: its two functions are stood in for."""
    from reprl.rng import global_state, load_global_state

    device, kept = torch.device("cuda:0"), []
    state = torch.arange(16, dtype=torch.uint8)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda where: state if where == device else 0)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda *call: kept.append(call))
    taken = {k: v.numpy() for k, v in global_state(device).items()}
    load_global_state(taken, device)
    assert torch.equal(kept[0][0], state)
    assert kept[0][1] == device
    assert "cuda" not in global_state(torch.device("cpu"))
    load_global_state(taken, torch.device("cpu"))
    assert len(kept) == 1


def test_refusals() -> None:
    model = PPO("CnnPolicy", Catch(), seed=0, n_steps=4, batch_size=8, n_epochs=1)

    class Early(BaseCallback):
        def _on_step(self) -> bool:
            self.model.capture()
            return True

    with refuses("between two updates"):
        model.learn(16, callback=Early())
    unsaveable = PPO("CnnPolicy", Catch(), seed=0, n_steps=4, learning_rate=lambda p: p)
    with refuses("arguments.learning_rate"):
        unsaveable.capture()
    trained = PPO("CnnPolicy", Catch(), seed=0, n_steps=4, batch_size=8, n_epochs=1).learn(16)
    captured = trained.capture()
    captured.meta["threads"] = 7
    trained.restore(captured)
    with refuses("threads=7"):
        trained.learn(16, reset_num_timesteps=False)
