"""Attention of an agent that carries a state, held to the same games unrolled by hand."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from reprl.algorithms import A2C
from reprl.analysis.attention.faithfulness import masked_returns, policy_curves
from reprl.analysis.attention.network import Network, network_of
from reprl.analysis.attention.record import Recording, collect, uniform
from reprl.analysis.attention.views import Attribution, look, make_view
from reprl.envs.vector import make_vec_env
from reprl.policy import State

sys.path.insert(0, str(Path(__file__).parents[2] / "toys"))
from recurrent import WIDTH, ToyRecurrent

SETTINGS = {"stack": 2, "size": 36}
ENVS = 2


def lively(model: A2C) -> A2C:
    """Weights large enough for the past to matter; the learning rate is of no interest here."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.policy.action_net.parameters():
            parameter.normal_(0, 1.5)
    return model


@pytest.fixture(scope="module")
def model() -> A2C:
    env = make_vec_env(n_envs=1, **SETTINGS)
    return lively(ToyRecurrent("CnnPolicy", env, seed=0, device="cpu"))


@pytest.fixture(scope="module")
def recording(model: A2C) -> Recording:
    view = make_view(network_of(model), "gradient")
    # Random games last under 300 steps: both environments go on to a second one.
    return collect(
        view, "green_lines", steps=700, n_envs=ENVS, seed=1, player=uniform(1), settings=SETTINGS
    )


def unrolled(model: A2C, observations: np.ndarray, blocks: np.ndarray) -> tuple[list, list]:
    """States before and probabilities at every look, the GRU run by hand game by game."""
    hidden, states, probs = {}, [], []
    for picture, block in zip(observations, blocks, strict=True):
        before = hidden.get(block, torch.zeros(1, WIDTH))
        with torch.no_grad():
            features = model.policy.features_extractor(torch.as_tensor(picture[None]) / 255)
            hidden[block] = model.policy.cell(features, before)
            logits = model.policy.action_net(model.policy.mlp_extractor(hidden[block])[0])
        states.append(before[0])
        probs.append(logits.softmax(dim=1)[0])
    return states, probs


def test_each_look_keeps_the_state_its_game_had_come_to(model: A2C, recording: Recording) -> None:
    assert len(set(recording.blocks.tolist())) > ENVS
    states, probs = unrolled(model, recording.observations, recording.blocks)
    torch.testing.assert_close(recording.state[0], torch.stack(states), rtol=0, atol=1e-4)
    np.testing.assert_allclose(recording.probabilities, torch.stack(probs), atol=1e-4)
    assert np.ptp(recording.probabilities, axis=0).max() > 0.01


def test_a_map_is_the_gradient_at_that_state(model: A2C, recording: Recording) -> None:
    for i in (0, 101, len(recording.blocks) - 1):
        image = torch.as_tensor(recording.observations[i : i + 1]) / 255
        image.requires_grad_()
        hidden = model.policy.cell(
            model.policy.features_extractor(image), recording.state[0][i : i + 1]
        )
        chances = model.policy.action_net(model.policy.mlp_extractor(hidden)[0])
        chances.log_softmax(dim=1).max().backward()
        assert image.grad is not None
        expected = image.grad[0, -1].abs()
        assert expected.max() > 0
        torch.testing.assert_close(recording.cells[i, 0], expected, rtol=1e-3, atol=1e-6)
    past = recording.observations[101:102]
    fresh = look(recording.view, past, (torch.zeros(1, WIDTH),))
    assert not torch.allclose(fresh[0], recording.cells[101], rtol=1e-2)


def test_the_clean_view_of_the_game_remembers_the_clean_game(
    model: A2C, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recording.clean_cells is not None
    # The same seed and actions without the variant: what the twin saw, as the game itself.
    alone = collect(
        recording.view, steps=700, n_envs=ENVS, seed=1, player=uniform(1), settings=SETTINGS
    )
    expected = alone.cells[alone.film]
    torch.testing.assert_close(recording.clean_cells, expected, rtol=1e-3, atol=1e-6)
    assert not torch.allclose(alone.state[0], recording.state[0], atol=1e-3)


@pytest.mark.parametrize("method", ["integrated", "perturbation", "gradcam"])
def test_every_method_explains_the_action_of_that_moment(
    model: A2C, recording: Recording, method: str
) -> None:
    view, some = make_view(network_of(model), method), recording.observations[200:203]
    states: State = (recording.state[0][200:203],)
    cells = look(view, some, states)
    for row in range(3):  # rows do not see each other's past
        alone = look(view, some[row : row + 1], (states[0][row : row + 1],))
        torch.testing.assert_close(cells[row], alone[0], rtol=1e-3, atol=1e-5)
    assert not torch.allclose(cells, look(view, some, (torch.zeros(3, WIDTH),)), rtol=1e-2)


class Watched(Network):
    """Keeps what the agent carried through the games."""

    def outputs(self, observations, state, starts=None):
        self.__dict__.setdefault("carried", []).append((observations, state[0]))
        return super().outputs(observations, state, starts)


class Corner(Attribution):
    """Attends to a corner."""

    name = "corner"

    def cells(self, images, *state):
        cells = torch.zeros(len(images), 1, 36, 36)
        cells[:, :, :6, :6] = 1.0
        return cells


def test_masked_play_remembers_what_was_left_of_the_pictures(model: A2C) -> None:
    network = Watched(network_of(model).player)
    filling = np.full((2, 36, 36), 90, np.uint8)
    masked_returns(
        Corner(network),
        "original",
        filling,
        share=0.5,
        games=2,
        seed=5,
        max_steps=12,
        conditions=("random only",),
        settings=SETTINGS,
    )
    shown = np.concatenate([o for o, _ in network.carried])
    carried = torch.cat([s for _, s in network.carried])
    assert (shown == 90).mean() > 0.4
    states, _ = unrolled(model, shown, np.arange(len(shown)) % 2)
    torch.testing.assert_close(carried, torch.stack(states), rtol=0, atol=1e-4)
    assert carried[-1].abs().max() > 0.01


def test_deletion_starts_from_the_policy_of_the_moment(model: A2C, recording: Recording) -> None:
    some = slice(100, 104)
    observations, maps = recording.observations[some], recording.maps()[some]
    filling = np.full((2, 36, 36), 90, np.uint8)
    states: State = (recording.state[0][some],)
    curves = policy_curves(
        recording.view.network, observations, maps, filling=filling, state=states
    )
    np.testing.assert_allclose(curves["deletion", "attention"][:, 0], 0, atol=1e-6)
    everything = torch.as_tensor(np.broadcast_to(filling, observations.shape).copy())
    with torch.no_grad():
        left = model.policy.step(everything, *states)[0].exp()
    kept = torch.as_tensor(recording.probabilities[some])
    expected = (kept * (kept.log() - left.double().log())).sum(dim=1)
    found = curves["deletion", "attention"][:, -1]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
