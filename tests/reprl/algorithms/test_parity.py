"""Without extras, in plain mode, the algorithms are stock SB3's, bit for bit."""

from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.vec_env import VecTransposeImage

from reprl.algorithms import A2C, PPO
from tests.toys.catch import Catch

pytestmark = pytest.mark.slow  # trains

PPO_BASE: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "ent_coef": 0.01}
PPO_CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "value clipping": {"clip_range_vf": 0.05},
    "target_kl": {"target_kl": 1e-7, "n_epochs": 4, "learning_rate": 1e-2},
    "raw advantages": {"normalize_advantage": False},
    "schedules": {
        "learning_rate": lambda progress: progress * 2.5e-4,
        "clip_range": lambda progress: progress * 0.1,
        "clip_range_vf": lambda progress: 0.01 + progress,
    },
    "hard clipping": {"max_grad_norm": 0.01},
    "indivisible": {"batch_size": 15},
    "one left over": {"batch_size": 21},
    "an extractor for each": {"policy_kwargs": {"share_features_extractor": False}},
    "gray levels as they are": {"policy_kwargs": {"normalize_images": False}},
}
A2C_CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "normalised advantages": {"normalize_advantage": True},
    "adam": {"use_rms_prop": False},
    "tensorflow's rmsprop": {
        "policy_kwargs": {"optimizer_class": RMSpropTFLike, "optimizer_kwargs": {"eps": 1e-5}}
    },
    "schedule": {"learning_rate": lambda progress: progress * 7e-4, "max_grad_norm": 0.01},
    "gae": {"gae_lambda": 0.9, "n_steps": 7},
}


class Recorder(BaseCallback):
    """Keeps what was logged at each dump."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        values = self.model.logger.name_to_value
        self.rows.append({k: v for k, v in values.items() if k.startswith("train/")})


def both(stock: Any, ours: Any, steps: int, **arguments: Any) -> tuple[Any, Any]:
    models = []
    for kind in (stock, ours):
        model = kind("CnnPolicy", Catch(), seed=3, device="cpu", **arguments)
        model.recorder = Recorder()
        models.append(model.learn(steps, callback=model.recorder))
    return models[0], models[1]


def assert_same(stock: Any, ours: Any) -> None:
    first, second = stock.policy.state_dict(), ours.policy.state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[k], second[k]) for k in first)
    theirs, own = (m.policy.optimizer.state_dict()["state"] for m in (stock, ours))
    for index, state in theirs.items():
        for key, value in state.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(own[index][key]))
    assert np.array_equal(stock._last_obs, ours._last_obs)
    assert len(stock.recorder.rows) == len(ours.recorder.rows) > 2
    for row, other in zip(stock.recorder.rows, ours.recorder.rows, strict=True):
        assert row.keys() <= other.keys()
        for key in row:
            np.testing.assert_equal(float(row[key]), float(other[key]), err_msg=key)


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
@pytest.mark.parametrize("case", PPO_CASES)
def test_ppo_is_stock_ppo(case: str) -> None:
    arguments = PPO_BASE | PPO_CASES[case]
    stock, ours = both(stable_baselines3.PPO, PPO, 4 * 64, **arguments)
    assert_same(stock, ours)
    assert ours.early_stops == (4 if case == "target_kl" else 0)


@pytest.mark.parametrize("case", A2C_CASES)
def test_a2c_is_stock_a2c(case: str) -> None:
    stock, ours = both(stable_baselines3.A2C, A2C, 120, ent_coef=0.01, **A2C_CASES[case])
    assert_same(stock, ours)


def test_a_schedule_spec_is_the_sb3_idiom() -> None:
    states = []
    for kind, rate in (
        (stable_baselines3.PPO, lambda progress: progress * 2.5e-4),
        (PPO, {"kind": "linear", "start": 2.5e-4, "end": 0.0}),
    ):
        model = kind("CnnPolicy", Catch(), seed=1, learning_rate=rate, **PPO_BASE).learn(192)
        states.append(model.policy.state_dict())
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])


def test_vectors_and_continuous_actions_still_work() -> None:
    models = []
    for kind in (stable_baselines3.PPO, PPO):
        model = kind("MlpPolicy", "Pendulum-v1", seed=0, n_steps=32, batch_size=16, use_sde=True)
        models.append(model.learn(64))
    first, second = (m.policy.state_dict() for m in models)
    assert all(torch.equal(first[k], second[k]) for k in first)


@pytest.mark.parametrize("mode", ["plain", "fast"])
def test_sb3_tools_keep_working(tmp_path: Any, mode: str) -> None:
    extra: dict[str, Any] = {"mode": mode, "compile": False, "learning_rate": 1e-2}
    model = PPO("CnnPolicy", Catch(), seed=0, **PPO_BASE, **extra).learn(128)
    mean, _ = evaluate_policy(model, Catch(seed=5), n_eval_episodes=8, warn=False)
    assert -1.0 <= mean <= 1.0
    observation = Catch(n_envs=64, seed=9).reset()
    model.save(tmp_path / "model.zip")
    loaded = PPO.load(tmp_path / "model.zip", env=Catch())
    other = PPO("CnnPolicy", Catch(), seed=1, **PPO_BASE, **extra)
    actions = model.predict(observation, deterministic=True)[0]
    assert len(set(actions.tolist())) > 1, "a policy that always does the same proves nothing"
    before = other.predict(observation, deterministic=True)[0]
    assert not np.array_equal(actions, before)
    other.set_parameters(model.get_parameters())
    for twin in (loaded, other):
        assert np.array_equal(actions, twin.predict(observation, deterministic=True)[0])
    assert loaded.mode == mode
    for name, value in model.policy.state_dict().items():
        assert torch.equal(value, loaded.policy.state_dict()[name])
        assert torch.equal(value, other.policy.state_dict()[name])
    loaded.learn(64)


class Names(BaseCallback):
    """Keeps what a step's local variables are called, and the shapes of those that have one."""

    def _on_step(self) -> bool:
        self.shapes = {
            name: np.shape(self.locals[name])
            for name in ("obs_tensor", "actions", "clipped_actions", "values", "log_probs")
        }
        self.numbers = {name: self.locals[name] for name in ("n_rollout_steps", "n_steps")}
        same = self.locals["rollout_buffer"] is self.model.rollout_buffer
        self.parts = (same, self.locals["self"] is self.model, self.locals["env"].num_envs)
        return True


def test_callbacks_find_sb3s_names_in_both_modes() -> None:
    seen = []
    for kind, extra in (
        (stable_baselines3.PPO, {}),
        (PPO, {}),
        (PPO, {"mode": "fast", "compile": False}),
    ):
        callback = Names()
        kind("CnnPolicy", Catch(), seed=0, **PPO_BASE, **extra).learn(64, callback=callback)
        seen.append((callback.shapes, callback.numbers, callback.parts))
    assert seen[0] == seen[1] == seen[2]


def test_the_gradient_norm_may_change_between_updates() -> None:
    """SB3 reads model.max_grad_norm at each update; so do we."""

    class Tighten(BaseCallback):
        def _on_rollout_end(self) -> None:
            self.model.max_grad_norm = 1e-3

        def _on_step(self) -> bool:
            return True

    states = []
    for kind in (stable_baselines3.PPO, PPO):
        model = kind("CnnPolicy", Catch(), seed=1, learning_rate=1e-2, **PPO_BASE)
        states.append(model.learn(128, callback=Tighten()).policy.state_dict())
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])


def test_the_users_optimizer_settings_win() -> None:
    given = {"policy_kwargs": {"optimizer_kwargs": {"eps": 0.25}}}
    model = A2C("CnnPolicy", Catch(), optimizer="rmsprop_tf", **given)
    (group,) = model.policy.optimizer.param_groups
    assert (group["eps"], group["alpha"]) == (0.25, 0.99)


def test_a_callback_may_stop_training() -> None:
    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return self.n_calls < 5

    model = PPO("CnnPolicy", VecTransposeImage(ChannelsLast()), seed=0, **PPO_BASE)
    assert model.learn(10_000, callback=Stop()).num_timesteps == 20


class ChannelsLast(Catch):
    """The same game, its pictures stored with the channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = type(self.observation_space)(0, 255, (36, 36, 4), np.uint8)

    def reset(self) -> np.ndarray:
        return super().reset().transpose(0, 2, 3, 1)

    def step_wait(self) -> Any:
        observations, rewards, dones, infos = super().step_wait()
        for info in infos:
            if "terminal_observation" in info:
                info["terminal_observation"] = info["terminal_observation"].transpose(1, 2, 0)
        return observations.transpose(0, 2, 3, 1), rewards, dones, infos
