"""SAC, TD3 and DDPG: SB3's bits, noise that fades near a goal, exact resume, play by numbers."""

from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise

from reprl.algorithms import DDPG, SAC, TD3, rebuild
from reprl.algorithms.action_noise import nearness_scale
from reprl.envs import make_vec_env
from reprl.evaluation import evaluate
from tests.helpers import refuses

KINDS = [SAC, TD3, DDPG]
SMALL: dict[str, Any] = {"buffer_size": 200, "learning_starts": 20, "batch_size": 16, "seed": 3}
SMALL |= {"device": "cpu", "gradient_steps": 2}
MLP = {"_target_": "reprl.encoders.Mlp", "separate": True, "hidden": [8, 8], "activation": "relu"}


def layers() -> dict[str, Any]:
    return {"policy_kwargs": {"net_arch": [8, 8]}}  # SB3 writes into it


def env(n_envs: int = 3) -> Any:
    return make_vec_env(game="gymnasium/Pendulum-v1", n_envs=n_envs, seed=3)


def same(a: Any, b: Any) -> bool:
    pairs = zip(a.policy.state_dict().values(), b.policy.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_sb3s_bit_for_bit(kind: Any) -> None:
    stock = getattr(stable_baselines3, kind.__name__)("MlpPolicy", env(), **layers(), **SMALL)
    stock.learn(90)
    ours = kind("MlpPolicy", env(), encoder=MLP, **SMALL).learn(90)
    plain = kind("MlpPolicy", env(), **layers(), **SMALL).learn(90)
    assert same(stock, plain)
    assert same(stock, ours)
    if kind is SAC:
        assert torch.equal(stock.log_ent_coef, ours.log_ent_coef)
        assert stock.log_ent_coef != 0


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("noise", ["normal", "ou"])
def test_noise_is_sb3s_too(noise: str, n_envs: int) -> None:
    cls: Any = NormalActionNoise if noise == "normal" else OrnsteinUhlenbeckActionNoise
    own = cls(np.zeros(1), 0.3 * np.ones(1))
    stock = stable_baselines3.TD3("MlpPolicy", env(n_envs), action_noise=own, **layers(), **SMALL)
    stock.learn(60)
    ours = TD3("MlpPolicy", env(n_envs), noise=noise, noise_sigma=0.3, **layers(), **SMALL)
    assert same(stock, ours.learn(60))


def test_noise_fades_as_the_goal_nears() -> None:
    assert nearness_scale([], [-1200, -200]) == 1.0
    assert nearness_scale([-1400.0, -1200.0], [-1200, -200]) == 1.0
    assert nearness_scale([-700.0], [-1200, -200]) == pytest.approx(0.5)
    assert nearness_scale([-100.0], [-1200, -200]) == 0.0
    assert nearness_scale([-100.0], [-1200, -200], 0.25) == 0.25
    assert nearness_scale([30.0], [10, 50]) == pytest.approx(0.5)
    assert nearness_scale([-700.0], None) == 1.0
    falling = {"kind": "linear", "start": 0.4, "end": 0.0}
    model = TD3("MlpPolicy", env(), noise="normal", noise_sigma=falling, **layers(), **SMALL)
    model.noise_goal = [-10_000, 10_000]
    model.learn(60)
    assert model.noise is not None
    size = model.noise.noises[0]._sigma[0]  # type: ignore[attr-defined]
    assert size == pytest.approx(0.4 * 3 / 60, rel=1e-5)  # before the last step, no game has ended
    model.ep_info_buffer.append({"r": 0.0})  # type: ignore[union-attr]
    model._sample_action(0, model.action_noise, 3)
    size = model.noise.noises[0]._sigma[0]  # type: ignore[attr-defined]
    assert size == pytest.approx(0.0, abs=1e-6)  # and the schedule is over


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_model_goes_on_bit_for_bit(kind: Any) -> None:
    options = {"noise": "normal", "noise_sigma": 0.2, "noise_goal": [-2000, 0], **layers(), **SMALL}
    whole = kind("MlpPolicy", env(), **options)
    whole.learn(60)
    captured = whole.capture()
    whole.learn(60, reset_num_timesteps=False)
    again = rebuild(captured.meta, env())
    again.restore(captured)
    again.learn(60, reset_num_timesteps=False)
    assert same(whole, again)
    if kind is SAC:
        assert torch.equal(whole.log_ent_coef, again.log_ent_coef)
    assert rebuild(captured.meta).predict(np.zeros(3, np.float32)) is not None  # without an env


def test_noise_with_a_memory_goes_on_where_it_stood() -> None:
    """SB3 begins it anew with each learn(); a restored run goes on inside of one."""
    model = TD3("MlpPolicy", env(), noise="ou", **layers(), **SMALL).learn(60)
    captured = model.capture()
    again = rebuild(captured.meta, env())
    again.restore(captured)
    again._setup_learn(60, None, False)
    assert model.noise is not None
    assert model.noise.state().any()
    np.testing.assert_array_equal(again.noise.state(), model.noise.state())


@pytest.mark.parametrize("kind", KINDS)
def test_it_plays_as_its_policy_predicts(kind: Any) -> None:
    model = kind("MlpPolicy", env(), **layers(), **SMALL).learn(60)
    seen = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    wanted, _ = model.predict(seen, deterministic=True)
    found = model.player().actions(seen, np.full(20, 0.5), deterministic=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    drawn = model.player().actions(seen, np.linspace(0, 0.99, 20), deterministic=False)
    assert (np.abs(drawn - wanted).max() > 0.1) == (kind is SAC)
    assert np.abs(drawn).max() <= 2.0
    with refuses("continuous actions", "discrete"):
        model.player().outputs(seen, ())


def test_sac_draws_as_wide_as_its_policy() -> None:
    model = SAC("MlpPolicy", env(), **layers(), **SMALL)
    seen = np.tile(np.float32([0.3, -0.2, 1.0]), (2000, 1))
    uniforms = np.random.default_rng(1).random(2000)
    ours = model.player().actions(seen, uniforms, deterministic=False)  # type: ignore[attr-defined]
    theirs, _ = model.predict(seen, deterministic=False)
    assert ours.std() == pytest.approx(theirs.std(), rel=0.06)
    assert ours.mean() == pytest.approx(theirs.mean(), abs=0.08)


def test_games_of_continuous_actions_are_evaluated() -> None:
    model = SAC("MlpPolicy", env(), **layers(), **SMALL)
    games = evaluate(model, "original", 3, n_envs=2)
    again = evaluate(model, "original", 3, n_envs=3)
    assert games["episode_return"].tolist() == again["episode_return"].tolist()  # in any slot
    assert games["length"].tolist() == [200] * 3
    assert (games["episode_return"] < -100).all()


def test_a_stick_plays_pictures() -> None:
    small: Any = {"size": 36, "stack": 2, "n_envs": 2, "seed": 1, "max_frames": 400}
    games = make_vec_env(continuous=True, **small)
    options = {**SMALL, "learning_starts": 8, "batch_size": 8, "buffer_size": 64}
    model = SAC("CnnPolicy", games, encoder="nature", **options).learn(24)
    captured = model.capture()
    model.learn(12, reset_num_timesteps=False)
    again = rebuild(captured.meta, make_vec_env(continuous=True, **small))
    again.restore(captured)
    again.learn(12, reset_num_timesteps=False)
    assert same(model, again)
    assert len(evaluate(model, ["original", "green_lines"], 1, frame_limit=400)) == 2


def test_what_it_has_not_is_said() -> None:
    cart = make_vec_env(game="gymnasium/CartPole-v1", n_envs=1, seed=3)
    with refuses("SAC", "Discrete(2)"):
        SAC("MlpPolicy", cart, **SMALL)
    with refuses("SAC", "mode=plain"):
        SAC("MlpPolicy", env(), mode="fast", **SMALL)
    for goal in ([1, 1], [50, 5]):
        with refuses(f"noise_goal={goal}", "two scores"):
            TD3("MlpPolicy", env(), noise="ou", noise_goal=goal, **SMALL)
    with refuses("noise_goal", "algo.noise=normal"):
        TD3("MlpPolicy", env(), noise_goal=[0, 1], **SMALL)
    with refuses("gradient_steps=0"):
        TD3("MlpPolicy", env(), **SMALL | {"gradient_steps": 0})
    with refuses("SAC", "Box", "breakout"):
        evaluate(SAC("MlpPolicy", env(), **SMALL), "original", 1, game="breakout")
