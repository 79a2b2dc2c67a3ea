"""IDAAC: pairs, order, advantage head and schedule by hand; DAAC without the classifier."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from reprl.algorithms import IDAAC, rebuild
from reprl.algorithms.idaac import companions, order_losses
from reprl.policy import actor_forward
from tests.reprl.algorithms.parts import FLIP
from tests.reprl.algorithms.test_capture import CaptureAt, fingerprint
from tests.reprl.algorithms.test_ppg import copied, made, same
from tests.toys.catch import Catch

KORNIA = {"_target_": "kornia.augmentation.RandomErasing", "p": 1.0}
STARTS = np.array([[1, 0], [0, 0], [0, 1], [1, 0], [0, 1]], bool)  # (T, n)


def test_companions_are_other_steps_of_the_same_game() -> None:
    """Games of the first environment: steps 0 to 2 and 3 to 4; of the second: 0, 1; 2, 3; 4."""
    env, time = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 4, 3, 4])
    low, valid = companions(STARTS, env, time, np.zeros(5))
    assert valid.tolist() == [True, True, True, True, False]
    assert low.tolist() == [1, 0, 3, 2, 4]
    high, _ = companions(STARTS, env, time, np.full(5, 1 - 1e-16))
    assert high.tolist() == [2, 2, 3, 2, 4]
    drawn = companions(STARTS, np.zeros(3000, int), np.ones(3000, int), np.linspace(0, 1, 3000))[0]
    assert np.bincount(drawn, minlength=3).tolist() == [1500, 0, 1500]


def test_the_order_losses_by_hand() -> None:
    classifier = nn.Linear(2, 1)
    with torch.no_grad():
        classifier.weight.copy_(torch.tensor([[1.0, -1.0]]))
        classifier.bias.zero_()
    first = torch.tensor([[math.log(3)], [5.0]], requires_grad=True)  # it says 0.75 for the first
    second = torch.tensor([[0.0], [1.0]], requires_grad=True)
    earlier, valid = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.0])
    order, told, right = order_losses(classifier, first, second, earlier, valid)
    assert order.item() == pytest.approx(-0.5 * math.log(0.75) - 0.5 * math.log(0.25), rel=1e-6)
    assert told.item() == pytest.approx(-math.log(0.75), rel=1e-6)
    assert right.item() == 1.0
    # the encoder is taught by a classifier that stays, the classifier by features that stay
    weight = classifier.weight
    assert torch.autograd.grad(order, [weight], retain_graph=True, allow_unused=True) == (None,)
    assert torch.autograd.grad(told, [first], retain_graph=True, allow_unused=True) == (None,)
    (slope,) = torch.autograd.grad(order, [first], retain_graph=True)
    assert slope.flatten().tolist() == pytest.approx([0.25, 0.0])  # D - 1/2
    (slope,) = torch.autograd.grad(told, [weight])
    assert slope.flatten().tolist() == pytest.approx([-0.25 * math.log(3), 0.0])
    none = order_losses(classifier, first, second, earlier, torch.zeros(2))
    assert [each.item() for each in none] == [0.0, 0.0, 0.0]


def test_the_advantage_head_by_hand() -> None:
    model = made(IDAAC, order_coef=0.0)
    head = model.heads["advantage"]
    with torch.no_grad():
        head.weight.zero_()
        head.weight[0, -3:] = torch.tensor([1.0, 2.0, 3.0])
        head.bias.fill_(0.5)
    output = actor_forward(model.policy, torch.as_tensor(Catch().reset()))
    assert model.predicted(output, torch.tensor([0, 2, 1, 0])).tolist() == [1.5, 3.5, 2.5, 1.5]
    with torch.no_grad():
        head.weight[0, 0] = 1.0
    assert output.actor is not None
    moved = model.predicted(output, torch.tensor([0, 0, 0, 0])) - 1.5
    torch.testing.assert_close(moved, output.actor[:, 0])


def test_the_head_is_fitted_to_the_normalised_advantages() -> None:
    model = made(IDAAC, batch_size=32, advantage_coef=0.4, order_coef=0.0)
    model.learn(32)
    found = {}
    terms = model.loss_terms

    def noting(output: Any, actions: Any, minibatch: Any) -> Any:
        loss = terms(output, actions, minibatch)
        raw = minibatch.advantages
        target = (raw - raw.mean()) / (raw.std() + 1e-8)
        wrong = ((model.predicted(output, actions) - target) ** 2).mean()
        found["expected"], found["loss"] = wrong.detach(), loss
        return loss

    model.loss_terms = noting
    model.learn(32, reset_num_timesteps=False)
    assert [*found["loss"].terms] == ["policy", "entropy", "advantage"]
    term = found["loss"].terms["advantage"]
    assert term.weight == 0.4
    torch.testing.assert_close(term.value.detach(), found["expected"])


def test_the_value_network_is_trained_on_its_own_schedule() -> None:
    model = made(IDAAC, value_epochs=2, value_every=2)
    vf = model.policy.vf_features_extractor
    moves = []
    for _ in range(4):
        before, policys = copied(vf), copied(model.policy.features_extractor)
        model.learn(32, reset_num_timesteps=False)
        moves.append(not same(before, vf))
        assert not same(policys, model.policy.features_extractor)
    assert moves == [True, False, True, False]


def test_value_epochs_leave_the_policy_alone() -> None:
    """However long the value is trained on the same rollout, the policy's next draws are one."""
    for order_coef in (0.0, 0.1):
        ends = []
        for epochs in (2, 5):
            model = made(IDAAC, value_epochs=epochs, order_coef=order_coef).learn(32)
            ends.append((model.policy, model.heads))
        (one, heads), (two, others) = ends
        assert same(copied(one.features_extractor), two.features_extractor)
        assert same(copied(one.action_net), two.action_net)
        assert same(copied(heads), others)
        assert not same(copied(one.vf_features_extractor), two.vf_features_extractor)


@pytest.mark.parametrize("augmentation", ["shift", "intensity", FLIP, KORNIA])
def test_the_pictures_of_a_pair_are_augmented_alike(augmentation: Any) -> None:
    """What the companion's encoder sees is what the sample would look like in its place."""
    model = made(IDAAC, augmentation=augmentation, order_coef=0.1).learn(32)
    memory, seen = model.rollout_buffer, []
    model._actor_side = lambda: (
        lambda policy, inputs: seen.append(inputs) or actor_forward(policy, inputs)
    )
    (minibatch,) = memory.minibatches(32)
    view = model.losses.view(minibatch.observations).observations
    assert not torch.equal(view, minibatch.observations)
    after = model.losses.state()
    # as if each sample were its own companion
    memory.observed = lambda place: minibatch.observations.numpy()
    model._order_losses(actor_forward(model.policy, view), minibatch)
    assert torch.equal(seen[-1], view)
    for name, state in after.items():  # the pairs take nothing from the streams
        assert torch.equal(model.losses.state()[name], state), name


def test_daac_has_no_classifier() -> None:
    assert [*made(IDAAC, order_coef=0.0).heads] == ["advantage"]
    assert [*made(IDAAC, order_hidden=4).heads] == ["advantage", "order"]
    model = made(IDAAC).learn(64)
    logged = model.logger.name_to_value
    assert {"loss/order", "loss/order_classifier", "loss/advantage", "train/value_loss"} <= {
        *logged
    }
    assert 0 <= logged["train/order_accuracy"] <= 1


def test_it_goes_on_exactly() -> None:
    settings: dict[str, Any] = {
        "auxiliary": "contrastive",
        "augmentation": "shift",
        "order_coef": {"kind": "linear", "start": 0.1, "end": 0.0},
        "value_every": 2,
    }
    model, callback = made(IDAAC, **settings), CaptureAt(96)
    model.learn(192, callback=callback)
    assert callback.captured is not None
    for stream, equal in (("kept", True), ("lost", False)):
        if stream == "lost":
            callback.captured.state["stream.pairs"][2000] ^= 1
        other = rebuild(callback.captured.meta, Catch())
        other.restore(callback.captured)
        other.learn(96, reset_num_timesteps=False)
        assert (fingerprint(other) == fingerprint(model)) == equal
