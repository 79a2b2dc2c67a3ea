"""SVEA on replay batches: Q of augmented pictures is trained to the clean half's own targets."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sb3_contrib.common.utils import quantile_huber_loss
from torch import Tensor, nn
from torch.nn import functional as F

from reprl.algorithms import DDPG, DQN, PPG, QRDQN, SAC, TD3
from reprl.augmentation.base import View
from reprl.auxiliary.base import AuxiliaryLoss, Batch
from reprl.encoders.base import Encoder
from reprl.envs import make_vec_env
from tests.helpers import refuses
from tests.reprl.algorithms.test_replay_extras import GAMES, PAINTED
from tests.reprl.auxiliary import test_drac
from tests.toys.catch import SMALL_ENCODER, Catch

STICKS = [SAC, TD3, DDPG]
SMALL: dict[str, Any] = {"buffer_size": 120, "learning_starts": 16, "batch_size": 8, "seed": 3}
SMALL |= {"device": "cpu", "encoder": SMALL_ENCODER}
INVERT = {"_target_": f"{test_drac.__name__}.Invert"}
FLIP = {"_target_": "reprl.augmentation.Flip", "probability": 1.0}
SOMETIMES = {"_target_": "reprl.augmentation.Choice", "options": ["shift"] * 30 + ["flip"]}
Q: dict[Any, dict[str, Any]] = {
    DQN: {"double": True, "prioritized": True, "priority_alpha": 1.0, "n_steps": 2},
    QRDQN: {"n_quantiles": 5, "policy_kwargs": {"net_arch": [7]}},
}
MIRROR = torch.tensor([0, 2, 1])  # of Catch's NOOP, RIGHT, LEFT


def svea(augmentation: Any = INVERT, coef: float = 0.5) -> dict[str, Any]:
    return {"_target_": "reprl.auxiliary.Svea", "augmentation": augmentation, "coef": coef}


def made(kind: Any, **settings: Any) -> Any:
    env = make_vec_env(continuous=True, **GAMES) if kind in STICKS else Catch()
    return kind("CnnPolicy", env, **SMALL | Q.get(kind, {}) | settings)


def same(a: Any, b: Any) -> bool:
    pairs = zip(a.policy.state_dict().values(), b.policy.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def one_step(model: Any) -> tuple[Any, Any, set[str]]:
    """A gradient step: its minibatch, with priorities, and which parameters the term moves."""
    drawn, batch = model._sample(8)
    network, _ = model._learned()[0]
    reached: set[str] = set()
    add = model._with_losses

    def watched(loss: Tensor, *rest: Any) -> Any:
        total, found = add(loss, *rest)
        named = dict(model.policy.named_parameters())
        slopes = torch.autograd.grad(
            total - loss, list(named.values()), retain_graph=True, allow_unused=True
        )
        reached.update(n for n, s in zip(named, slopes, strict=True) if s is not None and s.any())
        return total, found

    model._sample, model._with_losses = lambda _: (drawn, batch), watched
    model._n_updates = 0
    torch.manual_seed(5)
    model.train(1, 8)
    assert {id(p) for n, p in model.policy.named_parameters() if n in reached} == {
        id(p) for p in network.parameters()
    }
    return drawn, batch, reached


Picture = Callable[[Tensor], Tensor]
# the run's augmentation (use: rad), the loss's own -> clean picture, augmented, actions of each
CASES: dict[str, tuple[Any, Any, Picture, Picture, bool, bool]] = {
    "inverted": (None, INVERT, lambda o: o, lambda o: 255 - o, False, False),
    "mirrored": (None, FLIP, lambda o: o, lambda o: o.flip(-1), False, True),
    "drawn on": (PAINTED, INVERT, lambda o: 0 * o + 7, lambda o: 255 - o, False, False),
    "the clean half mirrored": (FLIP, "none", lambda o: o.flip(-1), lambda o: o, True, False),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", [DQN, QRDQN])
def test_q_of_the_view_has_the_clean_halfs_target(kind: Any, case: str) -> None:
    run, own, clean, changed, *mirrored = CASES[case]
    extras = {"auxiliary": svea(own)} | ({"augmentation": run} if run else {})
    model = made(kind, **extras).learn(60)
    online = model.policy.q_net if kind is DQN else model.policy.quantile_net
    target = model.policy.q_net_target if kind is DQN else model.policy.quantile_net_target
    with torch.no_grad():  # some distance between the two, and errors of either kind
        for parameter in target.parameters():
            parameter.add_(0.03 * torch.randn_like(parameter))
    before = {n: v.clone() for n, v in online.state_dict().items()}
    later = {n: v.clone() for n, v in target.state_dict().items()}
    drawn, batch, _ = one_step(model)
    online.load_state_dict(before)
    target.load_state_dict(later)
    played = batch.actions.long()  # (B, 1)
    left = (1 - batch.dones) * (0.99 if batch.discounts is None else batch.discounts)

    def q(network: nn.Module, observations: Tensor) -> Tensor:
        found: Tensor = network(observations)
        return found[:, None] if kind is DQN else found  # (B, quantiles, A)

    def of(values: Tensor, actions: Tensor) -> Tensor:
        return torch.stack([v[:, int(a)] for v, a in zip(values, actions, strict=True)])

    def loss(observations: Tensor, mirror: bool) -> float:
        values = of(q(online, observations), MIRROR[played] if mirror else played)
        if kind is QRDQN:
            return quantile_huber_loss(values, goal).item()
        errors = F.smooth_l1_loss(values, goal, reduction="none")
        return (torch.as_tensor(drawn.weights)[:, None] * errors).mean().item()

    with torch.no_grad():
        following = q(target, clean(batch.next_observations))
        chooser = q(online, clean(batch.next_observations)) if kind is DQN else following
        goal = batch.rewards + left * of(following, chooser.mean(1).argmax(1))
        halves = (
            loss(clean(batch.observations), mirrored[0]),
            loss(changed(batch.observations), mirrored[1]),
        )
    logged = model.logger.name_to_value
    assert logged["train/loss"] == pytest.approx(halves[0], rel=1e-4)
    assert logged["loss/svea"] == pytest.approx(halves[1], rel=1e-4)
    assert logged["loss/svea_weight"] == 0.5
    assert abs(halves[0] - halves[1]) > 1e-4
    if kind is DQN:
        assert len(set(drawn.weights)) > 1


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", STICKS)
def test_both_critics_of_the_view_have_the_clean_halfs_target(kind: Any, shared: bool) -> None:
    model = made(kind, auxiliary=svea(coef=2.0), share_encoder=shared).learn(16)
    before = {n: v.clone() for n, v in model.policy.state_dict().items()}
    weight = None if kind is not SAC else model.log_ent_coef.detach().exp()
    _, batch, reached = one_step(model)
    assert all(name.startswith("critic.") for name in reached)  # neither actor nor targets
    model.policy.load_state_dict(before)
    torch.manual_seed(5)
    with torch.no_grad():
        if kind is SAC:
            model.actor.action_log_prob(batch.observations)
            actions, log_prob = model.actor.action_log_prob(batch.next_observations)
            paid = -weight * log_prob[:, None]
        else:
            noise = torch.randn_like(batch.actions) * model.target_policy_noise
            noise = noise.clamp(-model.target_noise_clip, model.target_noise_clip)
            actions = (model.actor_target(batch.next_observations) + noise).clamp(-1, 1)
            paid = 0.0
        values = torch.stack(model.critic_target(batch.next_observations, actions)).amin(0) + paid
        goal = batch.rewards + (1 - batch.dones) * 0.99 * values
        halves = [
            sum(F.mse_loss(q, goal).item() for q in model.critic(pictures, batch.actions))
            * (0.5 if kind is SAC else 1.0)
            for pictures in (batch.observations, 255 - batch.observations)
        ]
    logged = model.logger.name_to_value
    assert logged["train/critic_loss"] == pytest.approx(halves[0], rel=1e-4)
    assert logged["loss/svea"] == pytest.approx(halves[1], rel=1e-4)
    assert abs(halves[0] - halves[1]) > 1e-6


@pytest.mark.parametrize("kind", [DQN, QRDQN, *STICKS])
def test_with_no_weight_it_changes_nothing(kind: Any) -> None:
    steps = 20 if kind in STICKS else 64
    plain = made(kind).learn(steps)
    assert same(plain, made(kind, auxiliary=svea(coef=0.0)).learn(steps))
    assert not same(plain, made(kind, auxiliary=svea()).learn(steps))


@pytest.mark.parametrize("augmentation", [FLIP, SOMETIMES])
def test_a_mirrored_view_whose_actions_cannot_follow_is_refused(augmentation: Any) -> None:
    with refuses("mirrors", "LEFT and RIGHT"):
        made(SAC, auxiliary=svea(augmentation))
    nameless = Catch()
    nameless.action_meanings = None  # type: ignore[assignment]
    with refuses("mirrors", "LEFT and RIGHT"):
        DQN("CnnPolicy", nameless, auxiliary=svea(augmentation), **SMALL)
    made(DQN, auxiliary=svea(augmentation))


class Unsaid(AuxiliaryLoss):
    """Reads value_loss() without saying so in `needs`."""

    def __init__(self) -> None:
        super().__init__()
        self.declare("unsaid", coef=1.0)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        return {"unsaid": batch.value_loss(batch.output.features, View(batch.observations))}


def test_where_features_have_no_value_it_is_refused() -> None:
    given: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "seed": 3, "device": "cpu"}
    with refuses("svea", "value_loss"):
        PPG("CnnPolicy", Catch(), auxiliary=svea(), **given)
    with refuses("batch.values"):
        PPG("CnnPolicy", Catch(), auxiliary={"_target_": f"{__name__}.Unsaid"}, **given)
