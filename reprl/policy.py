"""The policy's forward pass, once: what the update, the rollout, evaluation and attention read.

observations -> **policy outputs** (distribution, values, features, attention) -> loss or action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import preprocess_obs
from torch import Tensor, nn

from reprl.encoders.base import Encoder, EncoderOutput
from reprl.errors import UserError
from reprl.sequences import Sequences, States
from reprl.transfer import on_device

# Convolutions may round differently in batches of another size, never by a row's place in one:
# all forward passes of play have this size, so an action does not depend on who else is playing.
FORWARD_BATCH = 16
DIVERGED = "the policy's action probabilities are no numbers: this agent diverged."
NUMBERS = "this agent has continuous actions, and this needs the probabilities of discrete ones."
MEMORY = (
    "this policy has a memory, so that features alone decide nothing: an auxiliary loss asks "
    "batch.heads(features), which goes through the memory."
)


class Latents(NamedTuple):
    """The policy up to its last layers, for B images."""

    features: Tensor  # (B, F), what the action head's side reads
    actor: Tensor  # (B, P), the input of the action head
    critic: Tensor  # (B, V), the input of the value head
    encoding: EncoderOutput | None  # None for SB3's own features extractors


@dataclass(frozen=True)
class PolicyOutput:
    """Policy outputs for B observations, with gradient where it is enabled."""

    values: Tensor  # (B,)
    features: Tensor  # (B, F)
    encoding: EncoderOutput | None = None
    log_probs: Tensor | None = None  # (B, n_actions), None for continuous actions
    distribution: Distribution | None = None  # SB3's; None in compiled code
    # (B, P), the input of the action head; in compiled code only where other heads read it
    actor: Tensor | None = None
    # (B, V), the input of the value head, where an encoder of its own or a memory stands before it
    critic: Tensor | None = None

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-probabilities (B,) of actions."""
        if self.distribution is not None:
            return self.distribution.log_prob(actions)
        assert self.log_probs is not None
        return self.log_probs.gather(1, actions[:, None]).squeeze(1)

    def entropy(self) -> Tensor | None:
        """Entropies (B,), None where the distribution has no closed form."""
        if self.distribution is not None:
            return self.distribution.entropy()
        assert self.log_probs is not None
        return -(self.log_probs.exp() * self.log_probs).sum(-1)


def as_input(policy: ActorCriticPolicy, observations: Tensor) -> Tensor:
    """Observations as the features extractor takes them: pictures as float32 in [0, 1]."""
    found = preprocess_obs(
        observations, policy.observation_space, normalize_images=policy.normalize_images
    )
    assert isinstance(found, Tensor)
    return found


def image_scale(policy: Any) -> float:
    """What observations are divided by; SB3 takes images as they are if told so."""
    return 255.0 if policy.normalize_images else 1.0


def latents(policy: ActorCriticPolicy, inputs: Tensor) -> Latents:
    """Encode once, in SB3's own order of operations."""
    if not policy.share_features_extractor:
        features, encoding = encoded(policy.pi_features_extractor, inputs)
        critic = policy.vf_features_extractor(inputs)
        mlp = policy.mlp_extractor
        return Latents(features, mlp.forward_actor(features), mlp.forward_critic(critic), encoding)
    features, encoding = encoded(policy.features_extractor, inputs)
    actor, critic = policy.mlp_extractor(features)
    return Latents(features, actor, critic, encoding)


def encoded(extractor: nn.Module, inputs: Tensor) -> tuple[Tensor, EncoderOutput | None]:
    """Features (B, F), and all an encoder says of its inputs where it is one of ours."""
    if not isinstance(extractor, Encoder):
        return extractor(inputs), None
    encoding = extractor.encode(inputs)
    return encoding.features, encoding


def heads(policy: ActorCriticPolicy, features: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities (B, n_actions) of discrete actions and values (B,) of features (B, F).

    A policy with a memory has them of whole sequences only: `sequence_heads`.
    """
    if getattr(policy, "lstm_actor", None) is not None:
        raise UserError(MEMORY)
    actor, critic = policy.mlp_extractor(features)
    return last_layers(policy, actor, critic)


def sequence_heads(policy: Any, features: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
    """The same of a policy with a memory, which begins with the sequences' own states."""
    padded = sequences.pad(features)
    log_probs, values = last_layers(policy, *remembered(policy, padded, padded, sequences))
    return sequences.unpad(log_probs), sequences.unpad(values)


def remembered(
    policy: Any, actor: Tensor, critic: Tensor, sequences: Sequences
) -> tuple[Tensor, Tensor]:
    """sb3-contrib's memories over padded features, and its layers up to the last ones."""
    mlp = policy.mlp_extractor
    acting = through_memory(policy, actor, sequences, sequences.actor, policy.lstm_actor)
    if policy.lstm_critic is not None:
        valuing = through_memory(policy, critic, sequences, sequences.critic, policy.lstm_critic)
    elif policy.shared_lstm:
        valuing = acting.detach()
    else:
        valuing = policy.critic(critic)
    return mlp.forward_actor(acting), mlp.forward_critic(valuing)


def through_memory(
    policy: Any, features: Tensor, sequences: Sequences, states: States, memory: nn.Module
) -> Tensor:
    """What a memory says to padded features, from these states on: step by step, or at once.

    A game begins at the first step of a sequence or in none of its steps, so that the state is
    emptied there or nowhere. Where one begins sb3-contrib takes every step by itself.
    """
    if not sequences.at_once:
        found: Tensor = policy._process_sequence(features, states, sequences.starts, memory)[0]
        return found
    steps = features.view(sequences.count, sequences.length, -1).transpose(0, 1)
    kept = 1.0 - sequences.starts.view(sequences.count, sequences.length)[:, 0].view(1, -1, 1)
    found = memory(steps, (kept * states[0], kept * states[1]))[0]
    return found.transpose(0, 1).flatten(0, 1)


def critic_features(policy: ActorCriticPolicy, inputs: Tensor) -> Tensor:
    """The features (B, F) that the value is read from, which may be an extractor's of its own."""
    shared = policy.share_features_extractor
    extractor = policy.features_extractor if shared else policy.vf_features_extractor
    features: Tensor = extractor(inputs)
    return features


def critic_latent(policy: ActorCriticPolicy, features: Tensor) -> Tensor:
    """What the last layer of the value is given of those features: (B, critic_width)."""
    return policy.mlp_extractor.forward_critic(features)


def value_input(policy: ActorCriticPolicy, output: PolicyOutput) -> Tensor:
    """What the last layer of the value was given in a forward pass: (B, critic_width)."""
    return critic_latent(policy, output.features) if output.critic is None else output.critic


def actor_latent(policy: ActorCriticPolicy, features: Tensor) -> Tensor:
    """What the action head is given of the policy's features: (B, actor_width)."""
    return policy.mlp_extractor.forward_actor(features)


def critic_width(policy: ActorCriticPolicy) -> int:
    """How many numbers `critic_latent` gives."""
    return int(policy.mlp_extractor.latent_dim_vf)


def actor_width(policy: ActorCriticPolicy) -> int:
    """How many numbers the action head is given."""
    return int(policy.mlp_extractor.latent_dim_pi)


def last_layers(policy: ActorCriticPolicy, actor: Tensor, critic: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities (B, n_actions) of discrete actions and values (B,)."""
    return actor_layers(policy, actor), critic_layers(policy, critic)


def actor_layers(policy: ActorCriticPolicy, actor: Tensor) -> Tensor:
    """Log-probabilities (B, n_actions) of discrete actions alone."""
    return torch.log_softmax(policy.action_net(actor), dim=-1)


def critic_layers(policy: ActorCriticPolicy, critic: Tensor) -> Tensor:
    """Values (B,) alone."""
    values: Tensor = policy.value_net(critic).flatten()
    return values


def action_logits(policy: ActorCriticPolicy, inputs: Tensor) -> Tensor:
    """Logits (B, A) of discrete actions for preprocessed images, for gradients and perturbation."""
    shared = policy.share_features_extractor
    extractor = policy.features_extractor if shared else policy.pi_features_extractor
    logits: Tensor = policy.action_net(policy.mlp_extractor.forward_actor(extractor(inputs)))
    return logits


def policy_forward(policy: ActorCriticPolicy, observations: Tensor) -> PolicyOutput:
    """Policy outputs for observations, bit for bit as SB3's `evaluate_actions` has them."""
    features, actor, critic, encoding = latents(policy, as_input(policy, observations))
    distribution = policy._get_action_dist_from_latent(actor)
    values = policy.value_net(critic).flatten()
    log_probs = getattr(distribution.distribution, "logits", None)
    own = None if policy.share_features_extractor else critic
    return PolicyOutput(values, features, encoding, log_probs, distribution, actor, own)


def actor_forward(policy: ActorCriticPolicy, observations: Tensor) -> PolicyOutput:
    """The policy's side alone, where the value has an encoder of its own; values are 0."""
    inputs = as_input(policy, observations)
    features, encoding = encoded(policy.pi_features_extractor, inputs)
    actor = actor_latent(policy, features)
    distribution = policy._get_action_dist_from_latent(actor)
    log_probs = getattr(distribution.distribution, "logits", None)
    none = features.new_zeros(len(features))
    return PolicyOutput(none, features, encoding, log_probs, distribution, actor)


def critic_forward(policy: ActorCriticPolicy, observations: Tensor) -> PolicyOutput:
    """The value's side alone: no distribution and no attention."""
    features = critic_features(policy, as_input(policy, observations))
    critic = critic_latent(policy, features)
    return PolicyOutput(policy.value_net(critic).flatten(), features, critic=critic)


@dataclass(frozen=True)
class SequenceOutput(PolicyOutput):
    """Policy outputs for the samples of sequences; the distribution is that of the padded ones."""

    sequences: Sequences | None = None

    def log_prob(self, actions: Tensor) -> Tensor:
        assert self.distribution is not None
        assert self.sequences is not None
        return self.sequences.unpad(self.distribution.log_prob(self.sequences.pad(actions)))

    def entropy(self) -> Tensor | None:
        assert self.distribution is not None
        assert self.sequences is not None
        found = self.distribution.entropy()
        return None if found is None else self.sequences.unpad(found)


def recurrent_forward(policy: Any, observations: Tensor, sequences: Sequences) -> PolicyOutput:
    """Policy outputs for samples, bit for bit as sb3-contrib's `evaluate_actions` has them.

    With `sequences.at_once` they are the same within rounding: padding is not encoded either.
    """
    padded = not sequences.at_once  # whether the encoder sees padding, as sb3-contrib's does
    inputs = as_input(policy, sequences.pad(observations) if padded else observations)
    encoding = None
    if policy.share_features_extractor:
        extractor = policy.features_extractor
        encoding = extractor.encode(inputs) if isinstance(extractor, Encoder) else None
        acting = valuing = extractor(inputs) if encoding is None else encoding.features
    else:
        acting = policy.pi_features_extractor(inputs)
        valuing = policy.vf_features_extractor(inputs)
    features = acting
    if padded:
        features = sequences.unpad(acting)
        encoding = None if encoding is None else _unpadded(encoding, sequences)
    else:
        acting, valuing = sequences.pad(acting), sequences.pad(valuing)
    actor, critic = remembered(policy, acting, valuing, sequences)
    distribution = policy._get_action_dist_from_latent(actor)
    logits = getattr(distribution.distribution, "logits", None)
    return SequenceOutput(
        sequences.unpad(policy.value_net(critic).flatten()),
        features,
        encoding,
        None if logits is None else sequences.unpad(logits),
        distribution,
        critic=sequences.unpad(critic),
        sequences=sequences,
    )


def _unpadded(encoding: EncoderOutput, sequences: Sequences) -> EncoderOutput:
    attention = encoding.attention
    return EncoderOutput(
        sequences.unpad(encoding.features),
        sequences.unpad(encoding.feature_map),
        None if attention is None else sequences.unpad(attention),
    )


def q_forward(network: Any, observations: Tensor) -> PolicyOutput:
    """Features of observations in SB3's Q-networks, bit for bit; values are left to the network."""
    inputs, extractor = as_input(network, observations), network.features_extractor
    encoding = extractor.encode(inputs) if isinstance(extractor, Encoder) else None
    features = extractor(inputs) if encoding is None else encoding.features
    return PolicyOutput(features.new_zeros(len(features)), features, encoding)


def sample_actions(probs: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """The actions (n,) at which the cumulated probs (n, A) pass the uniforms (n,)."""
    cumulated = np.cumsum(probs, axis=1)
    passed = cumulated > uniforms[:, None] * cumulated[:, -1:]  # (n, A)
    return passed.argmax(axis=1)


# -- playing ------------------------------------------------------------------------------------

State = tuple[Tensor, ...]  # what an agent carries from step to step, rows first; () for nothing


class Step(NamedTuple):
    """What a network says of one padded batch."""

    probs: Tensor  # (B, A); (B, 0) of continuous actions
    values: Tensor  # (B,)
    features: Tensor  # (B, F)
    attention: Tensor | None  # (B, K, h, w)


class Outputs(NamedTuple):
    """Policy outputs for n observations as arrays."""

    probs: np.ndarray  # (n, A) float64
    values: np.ndarray  # (n,)
    features: np.ndarray  # (n, F)
    attention: np.ndarray | None  # (n, K, h, w)


class Player(Protocol):
    """A trained network as evaluation, twin evaluation and attention use it."""

    def initial_state(self, n: int) -> State:
        """The state of n games that begin."""

    def outputs(
        self, observations: np.ndarray, state: State, starts: np.ndarray | None = None
    ) -> tuple[Outputs, State]:
        """Outputs and the next state; rows where `starts` (n,) is True begin anew."""


def restarted(player: Player, state: State, starts: np.ndarray) -> State:
    """The state of n rows, of which those where `starts` (n,) is True begin anew."""
    if not state or not starts.any():
        return state
    rows = torch.as_tensor(starts, device=state[0].device)
    return tuple(
        torch.where(rows.view(-1, *[1] * (old.dim() - 1)), new, old)
        for new, old in zip(player.initial_state(len(starts)), state, strict=True)
    )


class PolicyPlayer:
    """An actor-critic policy as a player; other kinds of networks override `forward`."""

    explains: ClassVar[str] = "logits"  # what preferences() gives

    def __init__(self, policy: Any) -> None:
        self.policy = policy

    @property
    def network(self) -> nn.Module:
        """The parameters that decide the action."""
        return self.policy  # type: ignore[no-any-return]

    @property
    def extractor(self) -> nn.Module:
        """What turns images into the features that decide the action."""
        policy = self.policy
        shared = policy.share_features_extractor
        return policy.features_extractor if shared else policy.pi_features_extractor

    @property
    def judge(self) -> nn.Module:
        """What turns images into the features that the score of an action is read from."""
        return self.extractor

    def initial_state(self, n: int) -> State:
        return ()

    def preferences(self, images: Tensor, state: State) -> Tensor:
        """Scores (B, A) of the actions, the best has the largest; with gradient, for attribution.

        Images are in [0, 1]. A policy without memory gives its logits, any other the logarithm of
        what `forward` says.
        """
        if not state:
            return action_logits(self.policy, images)
        step, _ = self.forward(images * image_scale(self.policy), state)
        return step.probs.clamp(min=torch.finfo(step.probs.dtype).tiny).log()

    def forward(self, observations: Tensor, state: State) -> tuple[Step, State]:
        """A batch (B, ...) in evaluation mode: padded in play, with gradient for attribution."""
        output = policy_forward(self.policy, observations)
        assert output.distribution is not None
        probs = output.distribution.distribution.probs  # type: ignore[union-attr]
        attention = None if output.encoding is None else output.encoding.attention
        return Step(probs, output.values, output.features, attention), state

    def outputs(
        self, observations: np.ndarray, state: State = (), starts: np.ndarray | None = None
    ) -> tuple[Outputs, State]:
        """Padded batches of one size; probabilities that are no numbers are refused."""
        found, state = self._passes(observations, state, starts)
        # Once anything was compiled in this process, torch.distributions lets NaN pass.
        if not np.isfinite(found.probs).all():
            raise UserError(DIVERGED)
        return found, state

    def read(self, observations: np.ndarray, state: State = ()) -> tuple[np.ndarray, np.ndarray]:
        """Values (n,) and features (n, F) alone, which agents with continuous actions have too."""
        found, _ = self._passes(observations, state, None)
        return found.values, found.features

    @torch.no_grad()
    def _passes(
        self, observations: np.ndarray, state: State, starts: np.ndarray | None
    ) -> tuple[Outputs, State]:
        n, policy = len(observations), self.policy
        if starts is not None:
            state = restarted(self, state, starts)
        training, steps, states = policy.training, [], []
        policy.set_training_mode(False)
        try:
            for start in range(0, n, FORWARD_BATCH):
                rows_here = slice(start, start + FORWARD_BATCH)
                batch = on_device(_padded(observations[rows_here]), policy.device)
                step, after = self.forward(batch, tuple(_filled(s[rows_here]) for s in state))
                steps.append(step)
                states.append(after)
        except ValueError as error:  # torch.distributions refuses NaN
            raise UserError(DIVERGED) from error
        finally:
            policy.set_training_mode(training)
        arrays: list[Any] = [
            None if parts[0] is None else torch.cat(parts)[:n].cpu().numpy()
            for parts in zip(*steps, strict=True)
        ]
        found = Outputs(arrays[0].astype(np.float64), *arrays[1:])
        return found, tuple(torch.cat(parts)[:n] for parts in zip(*states, strict=True))


class RecurrentPlayer(PolicyPlayer):
    """sb3-contrib's policies with LSTMs as a player: the state is theirs, rows first.

    It holds hidden and cell state of the policy's LSTM and, where there is one, of the value's:
    (n, layers, width) each.
    """

    def initial_state(self, n: int) -> State:
        lstm = self.policy.lstm_actor
        zeros = torch.zeros(n, lstm.num_layers, lstm.hidden_size, device=self.policy.device)
        return tuple(zeros.clone() for _ in range(4))

    def forward(self, observations: Tensor, state: State) -> tuple[Step, State]:
        policy = self.policy
        extractor, inputs = policy.features_extractor, as_input(policy, observations)
        encoding = extractor.encode(inputs) if isinstance(extractor, Encoder) else None
        features = extractor(inputs) if encoding is None else encoding.features
        going_on = torch.zeros(len(observations), device=features.device)
        parts = [part.transpose(0, 1).contiguous() for part in state]  # (layers, n, width)
        actor, after = policy._process_sequence(
            features, (parts[0], parts[1]), going_on, policy.lstm_actor
        )
        critic, after_critic = actor, after
        if policy.lstm_critic is not None:
            critic, after_critic = policy._process_sequence(
                features, (parts[2], parts[3]), going_on, policy.lstm_critic
            )
        elif policy.critic is not None:
            critic = policy.critic(features)
        log_probs, values = last_layers(
            policy,
            policy.mlp_extractor.forward_actor(actor),
            policy.mlp_extractor.forward_critic(critic),
        )
        attention = None if encoding is None else encoding.attention
        following = tuple(part.transpose(0, 1) for part in (*after, *after_critic))
        return Step(log_probs.exp(), values, actor, attention), following


class GreedyPlayer(PolicyPlayer):
    """SB3's Q-networks as a player: the best action, or any other with probability `epsilon`."""

    explains: ClassVar[str] = "Q-values"

    def __init__(self, policy: Any, *, epsilon: float = 0.0) -> None:
        super().__init__(policy)
        self.epsilon = epsilon

    @property
    def network(self) -> nn.Module:
        return self.policy.q_net  # type: ignore[no-any-return]

    @property
    def extractor(self) -> nn.Module:
        return self.network.features_extractor  # type: ignore[return-value]

    def preferences(self, images: Tensor, state: State) -> Tensor:
        return self.values(self.extractor(images))

    def forward(self, observations: Tensor, state: State) -> tuple[Step, State]:
        output = q_forward(self.network, observations)
        q = self.values(output.features)  # (B, A)
        best = torch.nn.functional.one_hot(q.argmax(1), q.shape[1]).to(q.dtype)
        probs = best * (1 - self.epsilon) + self.epsilon / q.shape[1]
        attention = None if output.encoding is None else output.encoding.attention
        return Step(probs, q.amax(1), output.features, attention), state

    def values(self, features: Tensor) -> Tensor:
        """Q (B, A) of features (B, F)."""
        found: Tensor = self.policy.q_net.q_net(features)
        return found


class QuantilePlayer(GreedyPlayer):
    """sb3-contrib's quantile networks as a player: Q is the mean of an action's quantiles."""

    @property
    def network(self) -> nn.Module:
        return self.policy.quantile_net  # type: ignore[no-any-return]

    def values(self, features: Tensor) -> Tensor:
        network = self.policy.quantile_net
        quantiles = network.quantile_net(features)  # (B, quantiles x A)
        return quantiles.view(len(features), network.n_quantiles, -1).mean(1)  # type: ignore[no-any-return]


class ContinuousPlayer(PolicyPlayer):
    """SB3's actors with continuous actions as a player: it says what it does.

    What compares probabilities of actions (twins, faithfulness) asks for `outputs`, and is refused
    in one sentence.
    """

    explains: ClassVar[str] = "first critic's values of the action it prefers"

    @property
    def network(self) -> nn.Module:
        return self.policy.actor  # type: ignore[no-any-return]

    @property
    def extractor(self) -> nn.Module:
        own: nn.Module = self.policy.actor.features_extractor
        lent: nn.Module = getattr(own, "lent", own)  # the critic's, where they share one
        return lent

    @property
    def judge(self) -> nn.Module:
        return self.policy.critic.features_extractor  # type: ignore[no-any-return]

    def preferences(self, images: Tensor, state: State) -> Tensor:
        """The action it prefers (B, width), each number from -1 to 1; with gradient."""
        return self._preferred(self.extractor(images))

    def worth(self, images: Tensor, actions: Tensor) -> Tensor:
        """The first critic's values (B,) of actions (B, width) from -1 to 1; with gradient."""
        return self._worth(self.judge(images), actions)

    def _preferred(self, features: Tensor) -> Tensor:
        actor = self.policy.actor
        if not hasattr(actor, "latent_pi"):  # TD3's and DDPG's
            return actor.mu(features)  # type: ignore[no-any-return]
        return torch.tanh(actor.mu(actor.latent_pi(features)))

    def _worth(self, features: Tensor, actions: Tensor) -> Tensor:
        # critic.q1_forward would encode without a gradient
        known = torch.cat([features, actions], dim=1)
        return self.policy.critic.q_networks[0](known).flatten()  # type: ignore[no-any-return]

    def forward(self, observations: Tensor, state: State) -> tuple[Step, State]:
        """The actor's features and mask; the value is the first critic's of what it prefers."""
        inputs, judge = as_input(self.policy, observations), self.judge
        features, encoding = encoded(self.extractor, inputs)
        read = features if judge is self.extractor else judge(inputs)
        values = self._worth(read, self._preferred(features))
        attention = None if encoding is None else encoding.attention
        return Step(features.new_zeros(len(features), 0), values, features, attention), state

    def outputs(
        self, observations: np.ndarray, state: State = (), starts: np.ndarray | None = None
    ) -> tuple[Outputs, State]:
        raise UserError(NUMBERS)

    @torch.no_grad()
    def actions(
        self, observations: np.ndarray, uniforms: np.ndarray, *, deterministic: bool
    ) -> np.ndarray:
        """Actions (n, width) in the environment's own units, for observations and uniforms (n,).

        A stochastic actor draws by the uniforms, a deterministic one has no need of them.
        """
        policy, n = self.policy, len(observations)
        actor, training = policy.actor, policy.training
        policy.set_training_mode(False)
        parts = []
        for start in range(0, n, FORWARD_BATCH):
            rows = slice(start, start + FORWARD_BATCH)
            batch = torch.as_tensor(_padded(observations[rows]), device=policy.device)
            if not hasattr(actor, "get_action_dist_params"):
                parts.append(actor(batch).cpu().numpy())  # (B, width), squashed
                continue
            mean, log_std, _ = actor.get_action_dist_params(batch)
            chosen = mean.double().cpu().numpy()
            if not deterministic:
                drawn = _padded(normals(uniforms[rows], chosen.shape[1]))
                chosen = chosen + np.exp(log_std.double().cpu().numpy()) * drawn
            parts.append(np.tanh(chosen).astype(np.float32))
        policy.set_training_mode(training)
        squashed = np.concatenate(parts)[:n]
        if not np.isfinite(squashed).all():
            raise UserError(DIVERGED)
        found: np.ndarray = policy.unscale_action(squashed)
        return found


def normals(uniforms: np.ndarray, width: int) -> np.ndarray:
    """Normal numbers (n, width), each row a function of its uniform."""
    seeds = [int(u * 2**53) for u in uniforms]
    return np.stack([np.random.default_rng(seed).standard_normal(width) for seed in seeds])


def player_of(model: Any) -> Player:
    """How a model plays: as it says itself, else by what its policy is."""
    if hasattr(model, "player"):
        made: Player = model.player()
        return made
    return policy_player(model.policy)


def policy_player(policy: Any) -> Player:
    """A policy with action probabilities or Q-values as a player."""
    if hasattr(policy, "get_distribution"):
        return PolicyPlayer(policy)
    if hasattr(policy, "q_net"):
        return GreedyPlayer(policy)
    raise UserError(
        f"{type(policy).__name__} cannot be played: it has neither action probabilities nor "
        "Q-values; give the model a player() method."
    )


def _padded(part: np.ndarray) -> np.ndarray:
    if len(part) == FORWARD_BATCH:
        return part
    batch = np.zeros((FORWARD_BATCH, *part.shape[1:]), part.dtype)
    batch[: len(part)] = part
    return batch


def _filled(part: Tensor) -> Tensor:
    if len(part) == FORWARD_BATCH:
        return part
    batch = part.new_zeros((FORWARD_BATCH, *part.shape[1:]))
    batch[: len(part)] = part
    return batch
