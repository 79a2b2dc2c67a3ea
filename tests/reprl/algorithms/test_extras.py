"""Extras stay beside the policy: silent at weight 0, heard at any other, refused when wrong."""

import warnings
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces

from reprl import components
from reprl.algorithms import A2C, PPO, Diverged
from reprl.algorithms.rollout_buffer import RolloutMemory
from reprl.auxiliary.losses import mirrored_actions
from tests.helpers import refuses
from tests.reprl.algorithms.parts import ENCODER, FLIP, spread
from tests.toys.catch import Catch

SMALL: dict[Any, dict[str, Any]] = {
    PPO: {"n_steps": 8, "batch_size": 16, "n_epochs": 2},
    A2C: {"n_steps": 3},
}
MASKED = ("attention_contrastive", "decoder", "mask_entropy", "motion_target", "sparsity")
UNMASKED = [
    name
    for name in components.names("auxiliary")
    if name not in ("none", "total_variation", "object_target", *MASKED)  # it needs the truth
]
VIEWS = {"_target_": "reprl.augmentation.Shift", "use": "views"}
STOCK = {PPO: stable_baselines3.PPO, A2C: stable_baselines3.A2C}


def make(kind: Any, **arguments: Any) -> Any:
    arguments = {"encoder": ENCODER, "seed": 4, "device": "cpu", **SMALL[kind], **arguments}
    return kind("CnnPolicy", Catch(), **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [A2C, PPO])
def test_weight_0_is_stock_sb3(kind: Any) -> None:
    stock = STOCK[kind]("CnnPolicy", Catch(), seed=4, device="cpu", **SMALL[kind]).learn(128)
    before = make(kind, auxiliary=spread(coef=0.0))
    head = {k: v.clone() for k, v in before.auxiliary.state_dict().items()}
    silent = before.learn(128)
    heard = make(kind, auxiliary=spread(coef=0.1)).learn(128)
    for name, value in stock.policy.state_dict().items():
        assert torch.equal(value, silent.policy.state_dict()[name]), name
    assert not torch.equal(stock.policy.value_net.weight, heard.policy.value_net.weight), (
        "a weight that counts must be felt"
    )
    key = "spread.head.weight"
    assert torch.equal(head[key], silent.auxiliary.state_dict()[key])
    assert not torch.equal(head[key], heard.auxiliary.state_dict()[key])
    assert not torch.equal(
        head["spread.slow.weight"], heard.auxiliary.state_dict()["spread.slow.weight"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", UNMASKED)
@pytest.mark.parametrize("kind", [A2C, PPO])
def test_every_loss_of_the_package_is_silent_at_weight_0(kind: Any, name: str) -> None:
    stock = STOCK[kind]("CnnPolicy", Catch(), seed=4, device="cpu", **SMALL[kind]).learn(64)
    spec = dict(components.resolve("auxiliary", name) or {})
    spec |= {key: 0.0 for key in spec if key.endswith("coef")}  # some have several terms
    ours = make(kind, encoder="nature", auxiliary=spec, instrument_every=1).learn(64)
    for theirs, own in zip(stock.policy.parameters(), ours.policy.parameters(), strict=True):
        assert torch.equal(theirs, own)


@pytest.mark.slow
def test_the_head_is_clipped_apart_and_the_policy_learns_the_sum() -> None:
    """One minibatch by hand: the encoder's gradient is that of policy + weight * term."""
    model = make(A2C, auxiliary=spread(coef=0.5), max_grad_norm=1e9, learning_rate=0.0)
    model.learn(12)
    shares = model.logger.name_to_value
    assert shares["loss/spread_weight"] == 0.5
    parts = [shares[f"loss/{k}_share"] for k in ("policy", "value", "entropy", "spread")]
    assert sum(parts) == pytest.approx(1.0)
    total = shares["train/policy_loss"] + 0.5 * shares["train/value_loss"]
    total += 0.0 * shares["train/entropy_loss"] + 0.5 * shares["loss/spread"]
    assert shares["train/loss"] == pytest.approx(total, rel=1e-5)
    groups = model.policy.optimizer.param_groups
    assert [len(g["params"]) for g in groups] == [12, 2]


@pytest.mark.slow
def test_begin_and_schedule() -> None:
    falling = {"kind": "linear", "start": 1.0, "end": 0.0}
    model = make(PPO, auxiliary=spread(coef=falling, begin=33))
    seen = []

    def note(local: Any, _: Any) -> bool:
        seen.append(local["self"].logger.name_to_value.get("loss/spread_weight"))
        return True

    model.learn(128, callback=note)
    assert seen[8] is None  # after the first update, at step 32, it has not begun
    assert seen[16] == pytest.approx(0.5)
    assert seen[24] == pytest.approx(0.25)


@pytest.mark.parametrize("bad", ["weight", "term"])
def test_terms_and_weights_must_match(bad: str) -> None:
    with refuses("spread"):
        make(PPO, auxiliary=spread(coef=1.0, bad=bad))


@pytest.mark.slow
def test_nan_stops_before_the_step_and_names_the_term() -> None:
    model = make(A2C, auxiliary=spread(coef=1.0))
    before = {k: v.clone() for k, v in model.policy.state_dict().items()}
    model.auxiliary["spread"].bad = "nan"
    with pytest.raises(Diverged, match="'spread'") as caught:
        model.learn(100)
    assert (caught.value.term, caught.value.step) == ("spread", 12)
    assert all(torch.equal(v, before[k]) for k, v in model.policy.state_dict().items())
    model = make(A2C)
    with torch.no_grad():
        model.policy.value_net.bias.fill_(float("inf"))
    with pytest.raises(Diverged) as caught:
        model.learn(100)
    assert caught.value.term in ("policy", "value")


def test_what_cannot_be_saved_or_found_is_refused() -> None:
    with refuses("auxiliary", "saved"):
        make(PPO, auxiliary=spread(coef=1.0, bad=object()))
    with refuses("'contrastiv'", "'contrastive'"):
        make(PPO, auxiliary="contrastiv")
    with refuses("mode=quick", "plain, fast"):
        make(PPO, mode="quick")
    with refuses("encoder", "features_extractor_class"):
        make(PPO, policy_kwargs={"features_extractor_class": object})
    floats = Catch()
    floats.observation_space = spaces.Box(0.0, 1.0, (4, 36, 36), np.float32)
    with refuses("uint8"):
        PPO("CnnPolicy", floats, encoder="nature", **SMALL[PPO])
    with refuses("learning_rate.kind=linaer", "'linear'"):
        make(PPO, learning_rate={"kind": "linaer", "start": 1.0})


def test_flip_exchanges_left_and_right() -> None:
    exchanged = mirrored_actions(["NOOP", "FIRE", "RIGHT", "LEFTFIRE", "LEFT", "RIGHTFIRE"])
    assert exchanged is not None
    assert exchanged.tolist() == [0, 1, 4, 5, 2, 3]
    assert mirrored_actions(["NOOP", "FIRE"]) is None
    model = make(PPO, augmentation=FLIP)
    pictures = torch.arange(36, dtype=torch.uint8).expand(200, 4, 36, 36)
    augmented, actions = model.losses.augment(pictures, torch.ones(200, dtype=torch.long))
    flipped = augmented[:, 0, 0, 0] == 35
    assert 60 < flipped.sum() < 140
    assert torch.equal(actions, torch.where(flipped, 2, 1))
    model.learn(64)
    nameless = Catch()
    nameless.action_meanings = None  # type: ignore[assignment]
    with refuses("LEFT"):
        PPO("CnnPolicy", nameless, encoder=ENCODER, augmentation=FLIP, **SMALL[PPO])


def test_a_mirroring_that_is_rarely_drawn_is_refused_at_once() -> None:
    nameless = Catch()
    nameless.action_meanings = None  # type: ignore[assignment]
    flip = {"_target_": "reprl.augmentation.Compose", "steps": ["flip"]}
    rare = {"_target_": "reprl.augmentation.Choice", "options": ["shift"] * 200 + [flip]}
    refused: tuple[dict[str, Any], ...] = (
        {"augmentation": rare},
        {"auxiliary": {"_target_": "reprl.auxiliary.DrAC", "augmentation": rare}},
        {"auxiliary": "drac", "augmentation": rare | {"use": "views"}},
    )
    for arguments in refused:
        with refuses("LEFT"):
            PPO("CnnPolicy", nameless, encoder=ENCODER, **arguments, **SMALL[PPO])
    # Views whose actions nobody asks for may be mirrored.
    extras = {"auxiliary": "contrastive", "augmentation": rare | {"use": "views"}}
    PPO("CnnPolicy", nameless, encoder=ENCODER, **extras, **SMALL[PPO])


def test_an_augmentation_with_a_state_is_refused_by_name() -> None:
    counting = {"_target_": "tests.reprl.algorithms.parts.Counting"}
    inside = {"_target_": "reprl.augmentation.Compose", "steps": ["shift", counting]}
    for arguments in (
        {"augmentation": counting},
        {"augmentation": inside},
        {"auxiliary": {"_target_": "reprl.auxiliary.DrAC", "augmentation": counting}},
    ):
        with refuses("Counting", "'count'"):
            make(PPO, **arguments)


def test_target_kl_on_augmented_pictures_is_warned_of() -> None:
    for arguments, expected in (
        ({"target_kl": 0.01, "augmentation": "shift"}, 1),
        ({"augmentation": "shift"}, 0),
        ({"target_kl": 0.01}, 0),
        ({"target_kl": 0.01, "auxiliary": "drac", "augmentation": VIEWS}, 0),
    ):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            make(PPO, **arguments)
        assert len([w for w in seen if "target_kl" in str(w.message)]) == expected


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["plain", "fast"])
@pytest.mark.parametrize("kind", [A2C, PPO])
def test_losses_see_the_rewards_of_the_game(kind: Any, mode: str) -> None:
    """Beyond a time limit SB3 adds the value to the reward it trains on; that is no reward."""
    model = make(kind, auxiliary=spread(coef=0.1), mode=mode, compile=False)
    with torch.no_grad():
        model.policy.value_net.bias.fill_(10.0)
    seen = []
    model.auxiliary["spread"].register_forward_pre_hook(
        lambda _, args: seen.append((args[0].rewards, model.rollout_buffer.rewards.max()))
    )
    model.learn(128)
    assert max(trained for _, trained in seen) > 5, "no episode was cut by a time limit"
    rewards = torch.cat([rewards for rewards, _ in seen])
    assert set(rewards.tolist()) <= {-1.0, 0.0, 1.0}
    assert rewards.any()


@pytest.mark.slow
@pytest.mark.parametrize("augmentation", [FLIP, None])
def test_losses_know_the_pictures_before_the_augmentation(augmentation: Any) -> None:
    model = make(A2C, auxiliary=spread(coef=0.1), augmentation=augmentation)
    seen = []
    model.auxiliary["spread"].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model.learn(12)
    (batch,) = seen
    untouched, valid = batch.at(0)
    assert valid.all()
    assert torch.equal(batch.originals, untouched)
    assert torch.equal(batch.originals, batch.observations) is (augmentation is None)


def counting(
    n_steps: int, history: int, rounds: int, starts: set[tuple[int, int]]
) -> RolloutMemory:
    """A memory whose observation is (environment, global time), with given episode starts."""
    space = spaces.Box(0, 255, (2,), np.uint8)
    memory = RolloutMemory(n_steps, space, spaces.Discrete(2), "cpu", n_envs=2)
    memory.history = history

    def begun(time: int) -> np.ndarray:
        return np.array([(time, env) in starts for env in range(2)])

    for r in range(rounds):
        memory.reset()
        for t in range(n_steps):
            time = r * n_steps + t
            row = np.array([[env, time] for env in range(2)], np.uint8)
            zeros = np.zeros(2, np.float32)
            memory.add(row, np.zeros((2, 1)), zeros, begun(time), torch.zeros(2), torch.zeros(2))
        after = (r + 1) * n_steps
        memory.finish(np.array([[env, after] for env in range(2)], np.uint8), begun(after))
    return memory


@pytest.mark.parametrize("flattened", [False, True])
@pytest.mark.parametrize("offset", [-7, -4, -1, 0, 1, 2, 3, 5])
def test_neighbours_are_true_and_never_cross_an_episode(offset: int, flattened: bool) -> None:
    starts = {(0, 0), (0, 1), (6, 0), (10, 1), (15, 0)}
    memory = counting(5, 6, 3, starts)  # the rollout holds times 10..14, its past 4..9, after it 15
    memory.history = 7  # as where fewer steps have been played than a loss may look back
    if flattened:
        list(memory.get(4))
    index = np.arange(10)
    observations, valid = memory.at(index, offset)
    for i, (row, is_valid) in enumerate(zip(observations.tolist(), valid.tolist(), strict=True)):
        env, time = i // 5, 10 + i % 5
        between = range(min(time, time + offset) + 1, max(time, time + offset) + 1)
        truth = 4 <= time + offset <= 15 and not any((t, env) in starts for t in between)
        assert is_valid == truth
        assert row == [env, time + offset if truth else time]


def test_an_aborted_rollout_leaves_no_past() -> None:
    memory = counting(5, 6, 2, set())
    memory.reset()
    assert memory.past_starts is not None
    memory.add(
        np.zeros((2, 2)), np.zeros((2, 1)), np.zeros(2), np.zeros(2), torch.zeros(2), torch.zeros(2)
    )
    memory.reset()
    assert memory.past_starts is None
