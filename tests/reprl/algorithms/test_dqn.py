"""DQN: SB3's bits without extras, double targets by hand, and a replay buffer that comes back."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sb3_contrib
import stable_baselines3
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from torch.nn import functional as F

from reprl import checkpoint
from reprl.algorithms import DQN, QRDQN, rebuild
from reprl.algorithms.priorities import Priorities, SumTree
from reprl.algorithms.replay_buffer import Draw
from reprl.envs import make_vec_env
from tests.helpers import refuses
from tests.toys.catch import Catch

SMALL: dict[str, Any] = {"buffer_size": 200, "learning_starts": 20, "batch_size": 16, "seed": 3}
SMALL |= {"target_update_interval": 24, "device": "cpu", "exploration_fraction": 0.5}


def env(n_envs: int = 2) -> Any:
    return make_vec_env(game="gymnasium/CartPole-v1", n_envs=n_envs, seed=3)


def same(a: Any, b: Any) -> bool:
    pairs = zip(a.policy.state_dict().values(), b.policy.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("n_steps", [1, 3])
def test_it_is_sb3s_bit_for_bit(n_steps: int) -> None:
    stock = stable_baselines3.DQN("MlpPolicy", env(), n_steps=n_steps, **SMALL).learn(160)
    spec = {"_target_": "reprl.encoders.Mlp", "separate": True, "activation": "relu"}
    ours = DQN("MlpPolicy", env(), n_steps=n_steps, encoder=spec, **SMALL).learn(160)
    plain = DQN("MlpPolicy", env(), n_steps=n_steps, **SMALL).learn(160)
    assert same(stock, plain)
    assert same(stock, ours)


def test_double_targets_are_valued_by_the_other_network() -> None:
    model = DQN("MlpPolicy", env(), double=True, **SMALL).learn(80)
    with torch.no_grad():
        for parameter in model.q_net.q_net[-1].parameters():
            parameter.neg_()  # now it likes best what the other network likes least
    assert model.replay_buffer is not None
    state = np.random.get_state()
    batch = model.replay_buffer.sample(16)
    np.random.set_state(state)
    with torch.no_grad():
        values, others = (
            model.q_net(batch.next_observations),
            model.q_net_target(batch.next_observations),
        )
        assert (values.argmax(1) != others.argmax(1)).any()
        following = torch.stack([others[i, values[i].argmax()] for i in range(16)])[:, None]
        targets = batch.rewards + (1 - batch.dones) * 0.99 * following
        chosen = model.q_net(batch.observations).gather(1, batch.actions.long())
        expected = F.smooth_l1_loss(chosen, targets).item()
    model.train(1, 16)
    assert model.logger.name_to_value["train/loss"] == pytest.approx(expected, rel=1e-6)


def test_a_restored_model_goes_on_bit_for_bit() -> None:
    whole = DQN("MlpPolicy", env(), double=True, **SMALL)
    whole.learn(80)
    captured = whole.capture()
    whole.learn(80, reset_num_timesteps=False)
    again = rebuild(captured.meta, env())
    again.restore(captured)
    again.learn(80, reset_num_timesteps=False)
    assert same(whole, again)
    assert whole.exploration_rate == again.exploration_rate


def test_the_time_is_told_apart() -> None:
    model = DQN("MlpPolicy", env(), **SMALL)
    stepped, games = [], model.env.step  # type: ignore[union-attr]

    def slow(actions: Any) -> Any:
        time.sleep(0.002)
        stepped.append(len(actions))
        return games(actions)

    model.env.step = slow  # type: ignore[union-attr,method-assign]
    model.learn(40)
    spent = model.timings
    assert len(stepped) == 20
    assert spent["env"] > 20 * 0.002
    assert spent["forward"] > 0
    assert spent["update"] > 0


def test_it_plays_greedily_but_for_its_last_epsilon() -> None:
    model = DQN("MlpPolicy", env(), exploration_final_eps=0.1, **SMALL)
    outputs, _ = model.player().outputs(np.zeros((3, 4), np.float32), ())
    assert sorted(outputs.probs[0].round(6)) == [0.05, 0.95]


PICTURES: dict[str, Any] = SMALL | {"buffer_size": 120, "learning_starts": 16, "batch_size": 8}
SHIFT = {"_target_": "reprl.augmentation.Shift", "use": "views"}


def catch(**settings: Any) -> DQN:
    return DQN("CnnPolicy", Catch(), **PICTURES | {"encoder": "nature"} | settings)


def test_pictures_are_sb3s_too_and_a_loss_of_no_weight_changes_nothing() -> None:
    stock = stable_baselines3.DQN("CnnPolicy", Catch(), **PICTURES).learn(64)
    plain = DQN("CnnPolicy", Catch(), **PICTURES).learn(64)
    assert same(stock, plain)
    encoded = catch().learn(64)
    silent = {"_target_": "reprl.auxiliary.Contrastive", "coef": 0.0}
    assert same(encoded, catch(auxiliary=silent, augmentation=SHIFT).learn(64))
    spoken = catch(auxiliary=silent | {"coef": 0.5}, augmentation=SHIFT)
    assert not same(encoded, spoken.learn(64))


@pytest.mark.parametrize("n_steps", [1, 3])
def test_what_is_taken_by_place_is_what_sb3_samples(n_steps: int) -> None:
    buffer = catch(n_steps=n_steps, learning_starts=900).learn(160).replay()
    assert buffer is not None
    assert buffer.full
    for seed in range(5):
        np.random.seed(seed)
        theirs = buffer.sample(32)
        np.random.seed(seed)
        drawn = buffer.draw(32)
        ours = buffer.take(drawn.rows, drawn.envs)
        for a, b in zip(ours, theirs, strict=True):
            assert a is b is None or torch.equal(a, b)


@pytest.mark.parametrize("steps", [100, 200])
def test_neighbours_stay_in_their_game(steps: int) -> None:
    buffer = catch(learning_starts=900).learn(steps).replay()
    assert buffer is not None
    size, newest = buffer.buffer_size, (buffer.added - 1) % buffer.buffer_size
    rows, envs = (index.ravel() for index in np.indices((buffer.size(), buffer.n_envs)))
    for offset in (-2, -1, 1, 2):
        found, valid = buffer.neighbours(rows, envs, offset)
        for row, env, place, ok in zip(rows, envs, found, valid, strict=True):
            step, here, expected = (1 if offset > 0 else -1), row, True
            for _ in range(abs(offset)):
                edge = here if step > 0 else here - 1  # whose end lies between
                expected &= (edge >= 0 or buffer.full) and edge % size != newest
                expected &= not buffer.dones[edge % size, env]
                here = (here + step) % size
            assert ok == expected
            assert place == (here if ok else row)
        assert valid.any()
        assert not valid.all()


def test_a_sum_tree_draws_in_proportion() -> None:
    tree = SumTree(5)
    tree[np.arange(5)] = [1.0, 0.0, 3.0, 0.0, 6.0]
    assert tree.total == 10.0
    places = tree.find(np.array([0.0, 0.99, 1.0, 3.99, 4.0, 9.99, 10.0]))
    assert places.tolist() == [0, 0, 2, 2, 4, 4, 4]
    tree[np.array([2, 4])] = [0.0, 1.0]
    assert tree.total == 2.0
    counts = np.bincount(tree.find(np.random.default_rng(0).random(4000) * 2), minlength=5)
    assert counts[[1, 2, 3]].tolist() == [0, 0, 0]
    assert counts[0] == pytest.approx(2000, rel=0.06)


def test_priorities_undo_their_own_bias() -> None:
    buffer = catch(learning_starts=900).learn(60).replay()
    assert buffer is not None
    priorities = Priorities(buffer, alpha=1.0, seed=0)
    assert (priorities.draw(16, beta=1.0).weights == 1).all()  # new ones are alike
    total = buffer.added * buffer.n_envs
    errors = np.random.default_rng(0).random(total) + 0.1
    rows, envs = np.divmod(np.arange(total), buffer.n_envs)
    priorities.update(Draw(rows, envs, np.ones(total, np.float32)), errors)
    values, counts, mean = errors**2, np.zeros(total), []
    for _ in range(400):
        drawn = priorities.draw(16, beta=1.0)
        place = drawn.rows * buffer.n_envs + drawn.envs
        counts[place] += 1
        weights = errors.sum() / (total * errors[place])
        np.testing.assert_allclose(drawn.weights, weights / weights.max(), rtol=1e-4)
        mean.append((weights * values[place]).mean())
    assert np.mean(mean) == pytest.approx(values.mean(), rel=0.02)
    assert np.corrcoef(counts, errors)[0, 1] > 0.8


def test_a_priority_is_the_error_to_the_power_alpha() -> None:
    model = DQN("MlpPolicy", env(), **SMALL).learn(40)
    buffer = model.replay()
    priorities = Priorities(buffer, alpha=0.5, seed=0)
    priorities.draw(2, beta=1.0)
    two = Draw(np.array([0, 1]), np.array([0, 0]), np.ones(2, np.float32))
    priorities.update(two, np.array([-4.0, 9.0]))
    places = two.rows * buffer.n_envs + two.envs
    assert priorities.tree[places] == pytest.approx([2.0, 3.0], rel=1e-3)
    assert priorities.largest == pytest.approx(3.0, rel=1e-3)  # what is new gets this


def test_a_dueling_network_has_the_mean_of_its_actions_for_its_value() -> None:
    model = catch(dueling=True).learn(40)
    features, head = torch.randn(6, 512), model.q_net.q_net
    torch.testing.assert_close(head(features).mean(1), head.value(features)[:, 0])  # type: ignore[operator]
    assert head.value[0].out_features == 512  # type: ignore[index,union-attr]
    assert model.q_net_target.q_net.state_dict().keys() == head.state_dict().keys()


EVERYTHING: dict[str, Any] = {
    "double": True,
    "dueling": True,
    "prioritized": True,
    "n_steps": 3,
    "attention": "conv",
    "auxiliary": {"near": {"_target_": "reprl.auxiliary.Contrastive", "coef": 0.1, "tau": 0.01}},
    "augmentation": "shift",
}


def test_with_everything_it_goes_on_bit_for_bit_from_its_checkpoint(tmp_path: Path) -> None:
    whole = catch(**EVERYTHING)
    whole.learn(60)
    checkpoint.save(whole, tmp_path / "a")
    whole.learn(80, reset_num_timesteps=False)
    again = checkpoint.load(tmp_path / "a", Catch())
    elsewhere = checkpoint.save(again, tmp_path / "b")
    assert set(checkpoint.verify(elsewhere).values()) == {"ok"}
    again.learn(80, reset_num_timesteps=False)
    assert same(whole, again)
    ours, theirs = (model.losses.modules.state_dict() for model in (whole, again))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    player = checkpoint.load(tmp_path / "a").player()  # without an environment
    assert player.outputs(Catch().reset(), ())[0].attention is not None


def test_a_kill_between_chunks_and_checkpoint_leaves_the_one_before_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = DQN("MlpPolicy", env(), prioritized=True, **SMALL)
    model.learn(64)
    checkpoint.save(model, tmp_path)
    model.learn(40, reset_num_timesteps=False)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as now:
        now.setattr("reprl.checkpoint.storage._write_draft", killed)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.save(model, tmp_path)
    assert checkpoint.steps(tmp_path) == [64]
    orphans = {file.name for file in (tmp_path / "replay").iterdir()}
    again = checkpoint.load(tmp_path, env())
    again.learn(40, reset_num_timesteps=False)
    assert same(model, again)
    (tmp_path / "replay" / ".half.chunk.draft").write_bytes(b"half")
    checkpoint.save(again, tmp_path, keep=1)
    kept = {file.name for file in (tmp_path / "replay").iterdir()}
    assert kept == orphans  # the same rows under the same name, and nothing half
    again.learn(300, reset_num_timesteps=False)
    last = checkpoint.save(again, tmp_path, keep=1)
    assert not kept & {file.name for file in (tmp_path / "replay").iterdir()}  # all overwritten
    assert set(checkpoint.verify(last).values()) == {"ok"}


def test_losses_look_in_time_and_what_a_buffer_has_not_is_said() -> None:
    catch(auxiliary="temporal").learn(32)
    with refuses("drac", "log_probs"):
        catch(auxiliary="drac", augmentation=SHIFT)
    with refuses("value_prediction", "returns"):
        catch(auxiliary="value_prediction")


@pytest.mark.parametrize("n_steps", [1, 3])
def test_quantiles_are_sb3_contribs_bit_for_bit(n_steps: int) -> None:
    small, layers = {**SMALL, "n_steps": n_steps}, {"n_quantiles": 20}
    stock = sb3_contrib.QRDQN("MlpPolicy", env(), policy_kwargs=layers, **small).learn(120)
    assert same(stock, QRDQN("MlpPolicy", env(), n_quantiles=20, **small).learn(120))
    ours = QRDQN("MlpPolicy", env(), n_quantiles=20, **small)
    ours.learn(80)
    captured = ours.capture()
    ours.learn(40, reset_num_timesteps=False)
    again = rebuild(captured.meta, env())
    again.restore(captured)
    again.learn(40, reset_num_timesteps=False)
    assert same(ours, again)
    seen = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    outputs, _ = ours.player().outputs(seen, ())
    assert outputs.probs.argmax(1).tolist() == ours.predict(seen, deterministic=True)[0].tolist()


def test_what_it_has_not_is_said() -> None:
    with refuses("DQN", "mode=plain"):
        DQN("MlpPolicy", env(), mode="fast", **SMALL)
    with refuses("algo.buffer_size", "GB"):
        DQN("CnnPolicy", Catch(), **SMALL | {"buffer_size": 100_000_000})
    numbers = {"_target_": "reprl.encoders.Mlp", "separate": True}
    with refuses("auxiliary", "pictures"):
        DQN("MlpPolicy", env(), encoder=numbers, auxiliary="contrastive", **SMALL)
    with refuses("QRDQN", "mode=plain"):
        QRDQN("MlpPolicy", env(), mode="fast", **SMALL)
    with refuses("replay_buffer_class"):
        DQN("MlpPolicy", env(), replay_buffer_class=ReplayBuffer, **SMALL)


@pytest.mark.slow
def test_it_learns_to_catch() -> None:
    """Random play catches a third: -0.4 points a game; a caught ball is +1."""
    learning: dict[str, Any] = {"learning_rate": 5e-4, "buffer_size": 2000, "gamma": 0.9}
    learning |= {"learning_starts": 200, "batch_size": 32, "train_freq": 1, "seed": 1}
    learning |= {"target_update_interval": 200, "exploration_fraction": 0.4, "device": "cpu"}
    tricks = {"double": True, "dueling": True, "prioritized": True}
    model = DQN("CnnPolicy", Catch(seed=1, cut=False), encoder="nature", **tricks, **learning)
    model.learn(2000)  # 0.94 with three seeds; after 1000 one machine's rounding makes 0.25 of it
    game, player, points = Catch(n_envs=64, seed=9, cut=False), model.player(), []
    seen: Any = game.reset()
    for _ in range(12):
        best = player.outputs(seen, ())[0].probs.argmax(1)
        seen, rewards, dones, _ = game.step(best)
        points += rewards[dones].tolist()
    assert np.mean(points) > 0.5
