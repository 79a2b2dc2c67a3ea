"""Curiosity beside every on-policy algorithm: bits that stay, what moves, and exact resume."""

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

from reprl.algorithms import IDAAC, PPG, RecurrentPPO, Reinforce, rebuild
from reprl.algorithms.ppg import Remembered
from reprl.algorithms.reinforce import EpisodeMemory
from reprl.algorithms.rollout_buffer import endless_advantages
from reprl.intrinsic import RND
from reprl.policy import as_input, critic_forward, policy_forward
from tests.helpers import refuses
from tests.reprl.algorithms.test_capture import CaptureAt, fingerprint
from tests.reprl.intrinsic.test_rnd import RND_SPEC, curiosity_of
from tests.toys.catch import SMALL_ENCODER, Catch
from tests.toys.lock import DEPTH, Lock

EPOCHS: dict[str, Any] = {"batch_size": 16, "n_epochs": 2}
PHASES: dict[str, Any] = {"n_policy_phases": 2, "auxiliary_epochs": 2, "auxiliary_batch_size": 16}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "reinforce": (Reinforce, {}),
    "bare": (Reinforce, {"baseline": False}),
    "ppg": (PPG, {**EPOCHS, **PHASES, "value_epochs": 2}),
    "ppg apart": (PPG, {**EPOCHS, **PHASES, "value_epochs": 3}),
    "idaac": (IDAAC, {"batch_size": 16, "value_epochs": 3, "value_every": 2}),
    "daac": (IDAAC, {"batch_size": 16, "value_epochs": 1, "order_coef": 0.0}),
    "lstm": (RecurrentPPO, {**EPOCHS, "lstm_size": 8}),
    "gru": (RecurrentPPO, {**EPOCHS, "lstm_size": 8, "memory": "gru", "at_once": True}),
}
APART = ("ppg", "ppg apart", "idaac", "daac")  # whose value has an encoder of its own


def made(name: str, spec: Any = RND_SPEC, **more: Any) -> Any:
    kind, settings = KINDS[name]
    common = {"encoder": SMALL_ENCODER, "n_steps": 8, "device": "cpu", "seed": 3}
    return kind("CnnPolicy", Catch(2), intrinsic=spec, **common, **settings | more)


def played(model: Any) -> Any:
    """The memory of a model after one more rollout, of which no minibatch has been drawn."""
    _, callback = model._setup_learn(16, reset_num_timesteps=False)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    return model.rollout_buffer


@pytest.mark.parametrize("name", KINDS)
def test_without_weight_the_policy_keeps_its_bits(name: str) -> None:
    plain = made(name, None).learn(96)
    beside = made(name, RND_SPEC | {"coef": 0.0, "value_coef": 0.0}).learn(96)
    for key, tensor in plain.policy.state_dict().items():
        assert torch.equal(tensor, beside.policy.state_dict()[key]), key
    loud = made(name).learn(96)
    assert not torch.equal(loud.policy.action_net.weight, plain.policy.action_net.weight)


@pytest.mark.parametrize("name", KINDS)
def test_it_continues_bit_for_bit(name: str) -> None:
    at = CaptureAt(48)  # of PPG and IDAAC in the middle of a cycle
    whole = made(name).learn(96, callback=at)
    assert at.captured is not None
    again = rebuild(at.captured.meta, Catch(2, seed=9))
    again.restore(at.captured)
    again.learn(48, reset_num_timesteps=False)
    assert fingerprint(again) == fingerprint(whole)
    assert curiosity_of(again).returned.count == 96


@pytest.mark.parametrize("name", KINDS)
def test_every_part_learns(name: str) -> None:
    model = made(name)
    curiosity = curiosity_of(model)
    before = {key: value.clone() for key, value in curiosity.state_dict().items()}
    model.learn(16)
    moved = {k for k, v in curiosity.state_dict().items() if not torch.equal(v, before[k])}
    assert any(key.startswith("reward.predictor") for key in moved)
    assert not any(key.startswith("reward.target") for key in moved)
    assert ("value.weight" in moved) == (name != "bare")
    logged = model.logger.name_to_value
    assert "loss/intrinsic_model" in logged
    assert ("loss/intrinsic_value" in logged) == (name != "bare")


@pytest.mark.parametrize("name", [name for name, (kind, _) in KINDS.items() if kind != Reinforce])
def test_the_second_value_is_read_where_the_first_is(name: str) -> None:
    """Its head in the place of SB3's value head, asked step by step as SB3 asks it."""
    model, paid = made(name, RND_SPEC | {"coef": 2.0}), {}
    model.learn(32)
    curiosity, memory = curiosity_of(model), model.rollout_buffer
    states = getattr(model, "_last_lstm_states", None)
    explore = memory.explore

    def noting(rewards: np.ndarray, *others: Any) -> np.ndarray:
        paid["rewards"], paid["before"] = rewards, memory.advantages.copy()
        found: np.ndarray = explore(rewards, *others)
        return found

    memory.explore = noting
    played(model)
    model.policy.value_net = curiosity.value
    values, starts = [], [*memory.episode_starts, model._last_episode_starts]
    for seen, begins in zip([*memory.observations, model._last_obs], starts, strict=True):
        inputs = torch.as_tensor(seen)
        with torch.no_grad():
            if states is None:
                values.append(model.policy.predict_values(inputs))
                continue
            begun = torch.as_tensor(begins, dtype=torch.float32)
            values.append(model.policy.predict_values(inputs, states.vf, begun))
            _, _, _, states = model.policy(inputs, states, begun)
    known = torch.stack(values).squeeze(2).double().numpy()
    added = endless_advantages(paid["rewards"], known[:-1], known[-1], 0.99, 0.95)
    np.testing.assert_allclose(memory.advantages, paid["before"] + 2 * added, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(curiosity.returns, known[:-1] + added, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", APART)
def test_the_second_value_belongs_to_the_values_network(name: str) -> None:
    model = made(name)
    memory = played(model)
    curiosity, policy = curiosity_of(model), model.policy
    (minibatch,) = memory.minibatches(16)
    forward = policy_forward if model.joint else critic_forward
    output = forward(policy, minibatch.observations)
    (term,) = curiosity.value_terms(output, minibatch, memory, policy).values()
    inputs = as_input(policy, minibatch.observations)
    latent = policy.mlp_extractor.forward_critic(policy.vf_features_extractor(inputs))
    wanted = torch.as_tensor(curiosity.returns.T.reshape(-1)[minibatch.place])
    expected = (curiosity.value(latent).flatten() - wanted).square().mean()
    torch.testing.assert_close(term.value, expected)
    for encoder, reached in (
        (policy.vf_features_extractor, True),
        (policy.pi_features_extractor, False),
    ):
        slopes = torch.autograd.grad(
            term.value, [*encoder.parameters()], retain_graph=True, allow_unused=True
        )
        assert any(slope is not None and slope.any() for slope in slopes) is reached
    own = set(model._curious_terms(output, minibatch))
    assert ("intrinsic_value" in own) == model.joint  # else it has the value's own epochs
    assert "intrinsic_model" in own


def test_the_value_epochs_of_the_second_value_are_the_firsts() -> None:
    model = made("idaac")
    moves = []
    for _ in range(4):
        before = curiosity_of(model).value.weight.detach().clone()
        model.learn(16, reset_num_timesteps=False)
        moves.append(not torch.equal(before, curiosity_of(model).value.weight))
    assert moves == [True, False, True, False]


def test_an_auxiliary_phase_holds_the_second_value_to_what_it_was() -> None:
    model = made("ppg", RND_SPEC | {"value_coef": 0.4})
    model._clone = 1.0
    seen = torch.as_tensor(Catch(2).reset())
    output, old = policy_forward(model.policy, seen), torch.full((2, 3), 1 / 3).log()
    held = torch.tensor([1.0, -1.0])
    batch = Remembered(seen, torch.zeros(2), old, held)
    term = model.phase_terms(output, None, batch).terms["intrinsic_value"]
    now = curiosity_of(model).value(output.critic).flatten()
    torch.testing.assert_close(term.value, 0.5 * (now - held).square().mean())
    assert term.weight == 0.4


def test_the_second_value_survives_an_auxiliary_phase() -> None:
    """The phase moves the features under it; without a term, what it expects would move too."""
    moved = {}
    for weight in (0.0, 10.0):
        model = made("ppg", n_policy_phases=100, learning_rate=1e-3)
        model.learn(64)
        seen = torch.as_tensor(model.rollout_buffer.observations)
        curiosity = curiosity_of(model)

        def expected(model: Any = model, seen: torch.Tensor = seen) -> torch.Tensor:
            with torch.no_grad():
                latent = critic_forward(model.policy, seen).critic
                found: torch.Tensor = curiosity_of(model).value(latent)
                return found

        before = expected()
        curiosity.reward.value_coef = weight
        model.auxiliary_epochs = 20
        model._auxiliary_phase()
        moved[weight] = float((expected() - before).square().mean())
    assert moved[10.0] < 0.2 * moved[0.0]


def episodes(**settings: Any) -> EpisodeMemory:
    """Two environments, three steps: a game of two steps and one that goes on; one of three."""
    from gymnasium import spaces

    memory = EpisodeMemory(3, spaces.Box(0, 1, (1,)), spaces.Discrete(2), "cpu", n_envs=2)
    for name, value in settings.items():
        setattr(memory, name, value)
    memory.gamma = 1.0
    memory.episode_starts = np.array([[1, 1], [0, 0], [1, 0]], np.float32)
    memory.values = np.full((3, 2), 0.5, np.float32)
    rewards = np.array([[0, 0], [4, 0], [7, 1]], np.float32)
    memory.finish(np.zeros((2, 1), np.float32), np.array([False, True]), rewards)
    return memory


def test_reinforce_adds_the_intrinsic_return_of_a_game_by_hand() -> None:
    paid = RND(coef=2.0, gamma=0.5)
    rewards, values = np.array([[2.0, 4], [2, 4], [8, 4]]), np.full((3, 2), 1.0)
    # to the ends of games: 2 + 0.5 * 2, 2; 4 + 0.5 * (4 + 0.5 * 4), 4 + 0.5 * 4, 4
    returns = np.array([[3.0, 7], [2, 6], [1, 4]])  # the unfinished step: its own value
    bare = episodes(baseline=False, normalize=False)
    assert bare.explore(rewards, values, np.zeros(2), paid).tolist() == returns.tolist()
    ended, share = np.array([[1, 1], [1, 1], [0, 1]], bool), 5 / 6
    game = np.array([[4.0, 1], [4, 1], [0, 1]])
    np.testing.assert_allclose(bare.advantages, (game + 2 * returns) * ended / share, rtol=1e-6)
    against = episodes(baseline=True, normalize=False)
    against.explore(rewards, values, np.zeros(2), paid)
    both = (game - 0.5 + 2 * (returns - 1)) * ended / share
    np.testing.assert_allclose(against.advantages, both, rtol=1e-6)
    # normalised as one sum, over the finished steps
    whole = episodes(baseline=True, normalize=True)
    whole.explore(rewards, values, np.zeros(2), paid)
    known = (both * share)[ended]
    np.testing.assert_allclose(
        whole.advantages[ended] * share, (known - known.mean()) / known.std(), rtol=1e-5, atol=1e-6
    )
    assert not whole.advantages[~ended].any()


LOCK: dict[str, tuple[Any, dict[str, Any]]] = {
    "reinforce": (Reinforce, {"n_steps": 40, "learning_rate": 3e-3}),
    "bare": (Reinforce, {"n_steps": 40, "learning_rate": 3e-3, "baseline": False}),
    "ppg": (PPG, {"n_policy_phases": 4, "n_epochs": 6, "value_epochs": 6}),
    "idaac": (IDAAC, {"n_epochs": 6, "value_epochs": 9}),
    "recurrent": (RecurrentPPO, {"lstm_size": 32, "at_once": True}),
}


def deepest(name: str, intrinsic: Any, seed: int = 1) -> int:
    """How many places of the lock an algorithm has seen after 20,480 steps."""
    kind, settings = LOCK[name]
    common: dict[str, Any] = {"n_steps": 128, "ent_coef": 0.01, "learning_rate": 1e-3}
    if kind is not Reinforce:
        common["batch_size"] = 256
    env = DummyVecEnv([Lock] * 8)
    spec = {"intrinsic": intrinsic, "device": "cpu", "seed": seed}
    kind("MlpPolicy", env, **spec, **common | settings).learn(20_480)
    visited = sum(each.visited for each in env.envs)  # type: ignore[attr-defined]
    return int((visited > 0).sum())


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCK)
def test_it_sees_more_of_a_game_that_pays_nothing(name: str) -> None:
    torch.set_num_threads(1)
    # without a baseline it is 3 to 14 places more, by the seed: four are asked together
    seeds, more = ((1, 2, 3, 4), 3) if name == "bare" else ((1,), 6)
    without = np.mean([deepest(name, None, seed) for seed in seeds])
    paid = np.mean([deepest(name, RND_SPEC | {"share": 1.0}, seed) for seed in seeds])
    assert without < DEPTH / 2
    assert paid >= without + more, (without, paid)


def test_supervised_learning_takes_none() -> None:
    from reprl.algorithms import Imitation

    with refuses("Imitation", "intrinsic"):
        Imitation("CnnPolicy", Catch(2), intrinsic="rnd")
