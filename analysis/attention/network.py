"""A trained agent as a function of images, which is how saliency and faithfulness see it.

What an agent with a memory carries into a moment is a further argument: the same pictures mean
another action after another past.
"""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from reprl.envs.defaults import GYMNASIUM
from reprl.envs.gymnasium_ids import spaces_of
from reprl.envs.observation import frame_channels
from reprl.errors import UserError
from reprl.policy import ContinuousPlayer, Outputs, PolicyPlayer, State, image_scale, player_of


class Network(nn.Module):
    """Images (B, C, H, W) in [0, 1] and the state -> scores of the actions (B, A), as logits.

    Of an agent with continuous actions: the action it prefers (B, width), from -1 to 1.
    """

    channels: int = 1  # of the newest frame, which maps are of
    continuous: bool = False  # it acts with numbers, which have no logits

    def __init__(self, player: PolicyPlayer) -> None:
        super().__init__()
        space = player.policy.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 3:
            raise UserError(f"attention maps need an agent that sees images, not {space}.")
        self.continuous = isinstance(player, ContinuousPlayer)
        if not self.continuous and not isinstance(player.policy.action_space, spaces.Discrete):
            raise UserError("attention maps need an agent with discrete actions.")
        self.player = player
        self.policy = player.network
        self.scale = image_scale(player.policy)
        self.channels = frame_channels(space)
        self.shape: tuple[int, int, int] = (space.shape[0], space.shape[1], space.shape[2])

    @property
    def extractor(self) -> nn.Module:
        """What the action head reads: an Encoder, or SB3's own features extractor."""
        return self.player.extractor

    @property
    def judge(self) -> nn.Module:
        """What `worth` reads; the critic's own where the actor has another one."""
        return self.player.judge

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def images(self, observations: np.ndarray) -> Tensor:
        """Observations (B, C, H, W) as the float images the network takes."""
        return torch.as_tensor(observations, device=self.device).float() / self.scale

    def forward(self, images: Tensor, *state: Tensor) -> Tensor:
        return self.player.preferences(images, state)

    @torch.no_grad()
    def best(self, images: Tensor, *state: Tensor) -> Tensor:
        """The action with the largest score, (B,); of continuous ones the preferred, (B, width)."""
        said: Tensor = self(images, *state)
        return said if self.continuous else said.argmax(dim=1)

    def worth(self, images: Tensor, actions: Tensor, *state: Tensor) -> Tensor:
        """Scores (B,) of one action each; of continuous ones the first critic's value."""
        if self.continuous:
            assert isinstance(self.player, ContinuousPlayer)
            return self.player.worth(images, actions)
        scores: Tensor = self(images, *state)
        return scores.gather(1, actions[:, None]).squeeze(1)

    def response(self, images: Tensor, *state: Tensor) -> Tensor:
        """What the policy makes of images, to be compared: centred logits, or the action itself."""
        said: Tensor = self(images, *state)
        return said if self.continuous else centred(said)

    def initial_state(self, n: int) -> State:
        """What the agent carries into n games that begin."""
        return self.player.initial_state(n)

    def outputs(
        self, observations: np.ndarray, state: State, starts: np.ndarray | None = None
    ) -> tuple[Outputs, State]:
        """As the agent plays: action probabilities and values as arrays, and the next state."""
        return self.player.outputs(observations, state, starts)


def network_of(model: object, game: str = "") -> Network:
    """The network of an SB3 or reprl model, in evaluation mode and without gradients to keep.

    `game` says what older checkpoints do not: where a picture in colour is one frame.
    """
    name = type(model).__name__
    if getattr(model, "policy", None) is None:
        raise UserError(f"attention maps need a trained agent, and {name} has no policy.")
    player = player_of(model)
    if not isinstance(player, PolicyPlayer):
        raise UserError(
            f"attention maps need to know which network {name} plays with: derive its player from "
            "reprl.policy.PolicyPlayer."
        )
    player.policy.set_training_mode(False)
    network = Network(player)
    if game.startswith(GYMNASIUM):
        network.channels = frame_channels(spaces_of(game)[0])
    return network


def centred(logits: Tensor) -> Tensor:
    """Logits without the offset that a softmax ignores, (B, A)."""
    return logits - logits.mean(dim=1, keepdim=True)


def kl(clean: Tensor, changed: Tensor) -> Tensor:
    """KL(pi || pi') in nats between two batches of logits (B, A), (B,)."""
    log_p, log_q = clean.log_softmax(dim=1), changed.log_softmax(dim=1)
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)
