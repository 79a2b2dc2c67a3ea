"""The built extras of one agent: auxiliary losses, the augmentation, and their own random streams.

They exist beside SB3's policy, never inside it: nothing here draws from the global generators that
SB3 uses, so an extra whose weight is 0 leaves the policy's parameters as stock SB3 has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from reprl import components
from reprl.algorithms.objectives import Evaluation
from reprl.algorithms.rehearsal import LentContext, rehearse, require_own_parameters
from reprl.algorithms.rollout_buffer import Minibatch, RolloutMemory
from reprl.algorithms.specs import Specs
from reprl.algorithms.terms import Terms
from reprl.augmentation.base import Augmentation, stateless
from reprl.auxiliary.base import Batch
from reprl.auxiliary.views import NAMELESS
from reprl.encoders.base import Encoder
from reprl.encoders.hard import streams
from reprl.errors import UserError
from reprl.rng import stream_seed, torch_stream


class Extras:
    """Auxiliary losses and augmentation, built once before training."""

    def __init__(
        self,
        *,
        specs: Specs,
        policy: ActorCriticPolicy,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        action_meanings: Sequence[str] | None,
        seed: int,
        device: torch.device,
    ) -> None:
        self.specs = specs
        self.policy = policy
        self._terms = Terms()
        self.losses = self._terms.losses
        self.layout = torch.contiguous_format  # of the images the losses encode
        self.augmentation: Augmentation | None = None
        self.mirror = mirrored_actions(action_meanings)  # (n_actions,) int64 or None
        self.generators = {
            name: torch_stream(seed, name, device=device.type)
            for name in ("augmentation", "auxiliary")
        }
        # Layers such as dropout only know the global generator: they get a state of their own.
        self._modules_state = (
            torch.Generator().manual_seed(stream_seed(seed, "modules")).get_state()
        )
        self._views_used = False
        if specs.augmentation is None and not specs.auxiliary:
            self.parameters: list[nn.Parameter] = []
            return
        if not isinstance(observation_space, spaces.Box) or not isinstance(
            action_space, spaces.Discrete
        ):
            raise UserError(
                "auxiliary losses and augmentations need image observations and discrete actions, "
                f"got {observation_space} and {action_space}."
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "auxiliary"))
            if specs.augmentation is not None:
                built = stateless(components.build("augmentation", specs.augmentation))
                self.augmentation = built.to(device)
                if specs.use == "rad" and built.mirrors and self.mirror is None:
                    raise UserError(NAMELESS)
            for name, spec in specs.auxiliary.items():
                self._terms.add(name, components.build("auxiliary", spec))
            context = self._context(observation_space, action_space)
            for loss in self._terms.each():
                loss.setup(context)
        require_own_parameters(self.losses, self.policy)
        self.losses.to(device)
        self.parameters = [p for p in self.losses.parameters() if p.requires_grad]
        rehearse(self, observation_space)
        self._views_used = context.lent

    # -- construction -------------------------------------------------------------------------

    def _context(self, observation_space: spaces.Box, action_space: spaces.Discrete) -> LentContext:
        return LentContext(
            encoder=self.encoder,
            policy=self.policy,
            observation_space=observation_space,
            action_space=action_space,
            augmentation=self.augmentation,
            history=self.reach,
            mirror=self.mirror,
        )

    @property
    def encoder(self) -> Encoder:
        return self.policy.features_extractor  # type: ignore[return-value]

    @property
    def reach(self) -> int:
        """How far the losses look in time."""
        return max((loss.reach for loss in self._terms.each()), default=0)

    @property
    def names(self) -> set[str]:
        """Every term's name in the log."""
        return self._terms.names

    def require_views(self) -> None:
        """Refuse an augmentation for the losses' views that none of them has asked for."""
        if self.augmentation is not None and self.specs.use == "views" and not self._views_used:
            raise UserError(
                f"augmentation use=views would do nothing: {', '.join(self.losses)} makes no views "
                "with the run's augmentation; set use=rad or augmentation=none, or choose a loss "
                "that compares views and has no augmentation of its own."
            )

    # -- the update's side --------------------------------------------------------------------

    def weights(self, step: int, progress_remaining: float) -> dict[str, float]:
        """The weight of every term that has begun."""
        return self._terms.weights(step, progress_remaining)

    def augment(self, observations: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """The training batch as RAD has it; untouched where there is nothing to do."""
        if self.augmentation is None or self.specs.use != "rad":
            return observations, actions
        with self._module_stream(), torch.no_grad():
            view = self.augmentation(observations, self.generators["augmentation"])
        if view.mirrored is not None:
            if self.mirror is None:
                raise UserError(NAMELESS)
            actions = torch.where(view.mirrored, self.mirror.to(actions.device)[actions], actions)
        return view.observations, actions

    def terms(
        self,
        memory: RolloutMemory,
        minibatch: Minibatch,
        observations: Tensor,
        actions: Tensor,
        evaluation: Evaluation,
        weights: dict[str, float],
    ) -> dict[str, Tensor]:
        """Every term that has begun, before its weight."""
        assert evaluation.output is not None
        assert evaluation.log_probs is not None
        index = minibatch.place
        batch = Batch(
            observations=observations,
            actions=actions,
            rewards=memory.rewards_of(index),
            returns=minibatch.returns,
            advantages=minibatch.advantages,
            episode_starts=memory.starts_of(index),
            env_index=memory.to_torch(index // memory.buffer_size),
            time_index=memory.to_torch(index % memory.buffer_size),
            output=evaluation.output,
            policy=self.policy,
            log_probs=evaluation.log_probs,
            values=evaluation.values,
            generator=self.generators["auxiliary"],
            at=lambda offset: memory.at(index, offset),
            layout=self.layout,
            augmented_from=(
                None if observations is minibatch.observations else minibatch.observations
            ),
        )
        return self.compute(batch, set(weights))

    def compute(self, batch: Batch, wanted: set[str]) -> dict[str, Tensor]:
        """The wanted terms of a batch, each one number; anything else is refused by name."""
        with self._module_stream():
            return self._terms.compute(batch, wanted, self.encoder)

    def after_step(self) -> None:
        for loss in self._terms.each():
            loss.after_step()

    # -- randomness ---------------------------------------------------------------------------

    @contextmanager
    def _module_stream(self) -> Iterator[None]:
        outside = torch.get_rng_state()
        # a hard mask draws from a stream of its own, which the losses' looks must not move on
        drawn = [(stream, stream.clone()) for stream in streams(self.encoder)]
        torch.set_rng_state(self._modules_state)
        try:
            yield
        finally:
            self._modules_state = torch.get_rng_state()
            torch.set_rng_state(outside)
            for stream, before in drawn:
                stream.copy_(before)

    def state(self) -> dict[str, Tensor]:
        """The random streams' states."""
        states = {name: generator.get_state() for name, generator in self.generators.items()}
        return states | {"modules": self._modules_state.clone()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        for name, generator in self.generators.items():
            generator.set_state(state[name])
        self._modules_state = state["modules"].clone()


def mirrored_actions(meanings: Sequence[str] | None) -> Tensor | None:
    """For each action the one with LEFT and RIGHT exchanged, or None where there are none."""
    if meanings is None or not any("LEFT" in m or "RIGHT" in m for m in meanings):
        return None
    swapped = [
        m.replace("LEFT", "<").replace("RIGHT", "LEFT").replace("<", "RIGHT") for m in meanings
    ]
    if any(m not in meanings for m in swapped):
        return None
    return torch.tensor([list(meanings).index(m) for m in swapped])
