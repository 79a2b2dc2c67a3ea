"""The auxiliary losses and the augmentation of one agent: built, weighted, computed, checked.

minibatch -> (augment) -> encode -> **auxiliary terms** -> update. They exist beside SB3's policy,
never inside it: nothing here draws from the global generators that SB3 uses, so a loss whose
weight is 0 leaves the policy's parameters as stock SB3 has them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from reprl import components
from reprl.augmentation.base import Augmentation, View, stateless
from reprl.auxiliary.base import ALONE, OPTIONAL, AuxiliaryLoss, Batch, Context
from reprl.auxiliary.views import NAMELESS
from reprl.components import Specs
from reprl.encoders.base import Encoder
from reprl.encoders.hard import streams
from reprl.envs.games.base import mirrored
from reprl.errors import UserError
from reprl.policy import PolicyOutput, policy_forward, recurrent_forward
from reprl.reduction import OneProcess, Reduction
from reprl.rng import ModuleStream, stream_seed, torch_stream
from reprl.schedules import Schedule, schedule
from reprl.sequences import Sequences

# an update's own numbers, which share a log with the terms
RESERVED = (
    *("policy", "value", "entropy", "total", "kl", "clip_fraction", "gradient", "rl"),
    *("intrinsic_value", "intrinsic_model"),
    *("advantage", "order", "order_classifier", "order_accuracy", "q", "critic"),
)


def require_reach(offset: int, history: int) -> None:
    """Refuse a look beyond the steps kept for sure: the answer would depend on what else is."""
    if abs(offset) > history:
        raise UserError(
            f"an auxiliary loss asks for the observation at {offset:+d} steps, but the farthest "
            f"reach of the losses is {history}: set reach = {abs(offset)} in its class."
        )


class AuxiliaryLosses:
    """Auxiliary losses and augmentation, built and run once on noise before training."""

    def __init__(
        self,
        *,
        specs: Specs,
        policy: ActorCriticPolicy,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        action_meanings: Sequence[str] | None,
        supplies: frozenset[str],
        seed: int,
        device: torch.device,
        forward: Callable[[Any, Tensor], PolicyOutput] = policy_forward,
        memory: Callable[[int], Sequences] | None = None,
        continuous: bool = False,
    ) -> None:
        """`memory` gives so many samples as sequences, for a policy that carries a state.

        With `continuous` actions may be numbers, which no loss is then told.
        """
        self.specs = specs
        self.policy = policy
        self._q_learning = "value_loss" in supplies and "values" not in supplies
        self._forward = forward
        self._memory = memory
        self.terms = Terms()
        self.reduction: Reduction = OneProcess()
        self.modules = self.terms.losses  # name -> loss, one nn.ModuleDict
        self.layout = torch.contiguous_format  # of the images the losses encode
        self.augmentation: Augmentation | None = None
        self.mirror = mirrored_actions(action_meanings)  # (n_actions,) int64 or None
        self.generators = {
            name: torch_stream(seed, name, device=device.type)
            for name in ("augmentation", "auxiliary")
        }
        self._module_stream = ModuleStream(seed, "modules")
        self._drawn: tuple[Tensor, Tensor] | None = None  # where the streams were at the last view
        self._views_used = False
        self.parameters: list[nn.Parameter] = []
        if specs.augmentation is None and not specs.auxiliary:
            return
        numbers = continuous and isinstance(action_space, spaces.Box)
        if not isinstance(observation_space, spaces.Box) or not (
            numbers or isinstance(action_space, spaces.Discrete)
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
                self.terms.add(name, components.build("auxiliary", spec))
            self._require_supplied(supplies)
            context = self._context(observation_space, action_space)  # type: ignore[arg-type]
            for loss in self.terms.each():
                loss.setup(context)
        require_own_parameters(self.modules, self.policy)
        self.modules.to(device)
        self.parameters = [p for p in self.modules.parameters() if p.requires_grad]
        self._dry_run(observation_space, action_space, supplies)
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
            q_learning=self._q_learning,
        )

    def _require_supplied(self, supplies: frozenset[str]) -> None:
        for name, loss in self.modules.items():
            assert isinstance(loss, AuxiliaryLoss)
            needs = loss.needs | ({"at"} if loss.reach else set())
            if ALONE in needs and self._memory is not None:
                raise UserError(
                    f"auxiliary '{name}' asks what one picture alone decides, and this policy "
                    "decides by what it remembers as well: choose another loss, or an algorithm "
                    "without a memory."
                )
            if missing := sorted(needs - supplies - {ALONE}):
                raise UserError(
                    f"auxiliary '{name}' needs {', '.join(missing)} of a minibatch, which this "
                    f"algorithm does not supply (it has {', '.join(sorted(supplies)) or 'none'})."
                )

    def needs(self, name: str) -> bool:
        """Whether a loss reads a field of OPTIONAL."""
        return any(name in loss.needs for loss in self.terms.each())

    @property
    def encoder(self) -> Encoder:
        return self.policy.features_extractor  # type: ignore[return-value]

    @property
    def reach(self) -> int:
        """How far the losses look in time."""
        return max((loss.reach for loss in self.terms.each()), default=0)

    def require_views(self) -> None:
        """Refuse an augmentation for the losses' views that none of them has asked for."""
        if self.augmentation is not None and self.specs.use == "views" and not self._views_used:
            raise UserError(
                f"augmentation use=views would do nothing: {', '.join(self.modules)} makes no "
                "views with the run's augmentation; set use=rad or augmentation=none, or choose a "
                "loss that compares views and has no augmentation of its own."
            )

    # -- the update's side --------------------------------------------------------------------

    def weights(self, step: int, progress_remaining: float) -> dict[str, float]:
        """The weight of every term that has begun."""
        return self.terms.weights(step, progress_remaining)

    def augment(self, observations: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """The training batch as RAD has it; untouched where there is nothing to do."""
        view = self.view(observations)
        return view.observations, self.follow(view, actions)

    def view(self, observations: Tensor, sequences: Sequences | None = None) -> View:
        """The observations as RAD has them; the steps of a sequence all in the same way."""
        if self.augmentation is None or self.specs.use != "rad":
            return View(observations)
        generator = self.generators["augmentation"]
        self._drawn = generator.get_state(), self._module_stream.state
        with self._module_stream.active(), torch.no_grad():
            if sequences is not None:
                return sequences.view(self.augmentation, observations, generator)
            return self.augmentation(observations, generator)

    def alike(self, observations: Tensor) -> Tensor:
        """Companions (B, ...) of the samples of the last view, changed by the same draws."""
        if self._drawn is None:  # nothing is augmented
            return observations
        generator = self.generators["augmentation"]
        now = generator.get_state(), self._module_stream.state
        generator.set_state(self._drawn[0])
        self._module_stream.state = self._drawn[1]
        found = self.view(observations).observations
        generator.set_state(now[0])
        self._module_stream.state = now[1]
        return found

    def follow(self, view: View, actions: Tensor) -> Tensor:
        """Actions (B,), or their probabilities (B, n_actions), mirrored where the picture is."""
        if view.mirrored is None:
            return actions
        if self.mirror is None:
            raise UserError(NAMELESS)
        mirror = self.mirror.to(actions.device)
        if actions.dim() == 2:
            return torch.where(view.mirrored[:, None], actions[:, mirror], actions)
        return torch.where(view.mirrored, mirror[actions], actions)

    def batch(
        self,
        output: PolicyOutput,
        *,
        observations: Tensor,
        actions: Tensor,
        augmented_from: Tensor | None,
        fields: Mapping[str, Any],
        sequences: Sequences | None = None,
    ) -> Batch:
        """A minibatch as the losses see it; `fields` are those of OPTIONAL that the buffer has."""
        assert output.encoding is not None
        return Batch(
            observations=observations,
            actions=actions,
            output=output.encoding,
            policy=self.policy,
            generator=self.generators["auxiliary"],
            log_probs=output.log_probs,  # type: ignore[arg-type]
            values=output.values,
            augmented_from=augmented_from,
            sequences=sequences,
            layout=self.layout,
            shares=self.reduction,
            **fields,
        )

    def compute(self, batch: Batch, wanted: set[str]) -> dict[str, Tensor]:
        """The wanted terms of a batch, each one number; anything else is refused by name."""
        with self._streams():
            return self.terms.compute(batch, wanted, self.encoder)

    def begin_update(self, returns: Callable[[], np.ndarray], begun: Container[str]) -> None:
        """Tell losses that ask for it the mean of a rollout's returns (T, n_envs).

        `begun` are the terms that count already.
        """
        told = [loss for loss in self.terms.counting(begun) if loss.scored]
        score = float(self.reduction.rows(returns()).mean()) if told else 0.0
        for loss in told:
            loss.begin_update(score)

    def noted(self) -> dict[str, float]:
        """What the losses say for the log besides their terms."""
        return {name: number for loss in self.terms.each() for name, number in loss.noted().items()}

    def after_step(self) -> None:
        for loss in self.terms.each():
            loss.after_step()

    @contextmanager
    def _streams(self) -> Iterator[None]:
        """Layers draw from the losses' own stream; a hard mask's own one is put back after it."""
        drawn = [(stream, stream.clone()) for stream in streams(self.encoder)]
        with self._module_stream.active():
            try:
                yield
            finally:
                for stream, before in drawn:
                    stream.copy_(before)

    # -- random streams -----------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """The random streams' states."""
        states = {name: generator.get_state() for name, generator in self.generators.items()}
        return states | {"modules": self._module_stream.state.clone()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        for name, generator in self.generators.items():
            generator.set_state(state[name])
        self._module_stream.state = state["modules"].clone()

    def diverge(self, seed: int, *names: str | int) -> None:
        """Draw from streams of other names: those of a rank, whose views must be its own."""
        for name, generator in self.generators.items():
            generator.manual_seed(stream_seed(seed, *names, name))
        self._module_stream = ModuleStream(seed, *names, "modules")
        for place, stream in enumerate(streams(self.encoder)):
            drawn = torch_stream(seed, *names, "attention", "gumbel", place)
            stream.copy_(drawn.get_state())

    # -- dry run ------------------------------------------------------------------------------

    def _dry_run(
        self, observation_space: spaces.Box, action_space: spaces.Space, supplies: frozenset[str]
    ) -> None:
        """Run everything once on noise and leave no trace: a wrong part fails now, not later."""
        policy, size = self.policy, 4
        training = policy.training
        noise = torch.Generator().manual_seed(0)
        shape = (size, *observation_space.shape)
        observations = torch.randint(256, shape, dtype=torch.uint8, generator=noise)
        observations = observations.to(policy.device)
        before = self.state(), {k: v.clone() for k, v in self.modules.state_dict().items()}
        policy.set_training_mode(False)
        with torch.random.fork_rng(devices=[]):
            actions = torch.zeros(size, dtype=torch.int64, device=policy.device)
            if isinstance(action_space, spaces.Box):
                actions = torch.zeros(size, *action_space.shape, device=policy.device)
            augmented, actions = self.augment(observations, actions)
            if augmented.shape != observations.shape or augmented.dtype != torch.uint8:
                raise UserError(
                    f"augmentation '{type(self.augmentation).__name__}' makes {augmented.dtype} of "
                    f"shape {tuple(augmented.shape)} out of uint8 {tuple(observations.shape)}."
                )
            if self.modules:
                batch = self._dry_batch(augmented, actions, supplies)
                batch.augmented_from = None if augmented is observations else observations
                self.compute(batch, self.terms.names)
        policy.set_training_mode(training)
        self.modules.load_state_dict(before[1])
        self.load_state(before[0])

    def _dry_batch(
        self, observations: Tensor, actions: Tensor, supplies: frozenset[str]
    ) -> DryBatch:
        """A batch in which nothing happens."""
        sequences = None if self._memory is None else self._memory(len(observations))
        if sequences is None:
            output = self._forward(self.policy, observations)
        else:
            output = recurrent_forward(self.policy, observations, sequences)
        zeros = torch.zeros(len(actions), device=actions.device)
        place = zeros.long()

        def at(offset: int) -> tuple[Tensor, Tensor]:
            require_reach(offset, self.reach)
            return observations, torch.ones_like(place, dtype=torch.bool)

        fields: dict[str, Any] = {"rewards": zeros, "returns": zeros, "advantages": zeros, "at": at}
        fields |= {"episode_starts": zeros.bool(), "env_index": place, "time_index": place}
        fields["actions_at"] = lambda offset: (place, at(offset)[1])
        fields |= {"log_probs": output.log_probs, "values": output.values}
        q_loss = (lambda features, view: features.mean()) if self._q_learning else None
        fields["boxes"] = torch.tensor([2.0, 3.0, 5.0, 7.0], device=zeros.device).expand(
            len(actions), 1, 4
        )
        return DryBatch(
            observations=observations,
            actions=actions,
            output=output.encoding,  # type: ignore[arg-type]
            policy=self.policy,
            generator=self.generators["auxiliary"],
            sequences=sequences,
            q_loss=q_loss,
            **{name: value for name, value in fields.items() if name in supplies},
        )


class Terms:
    """The losses of one agent under the names of their terms, with each term's weight.

    Two losses may call their terms alike.
    """

    def __init__(self) -> None:
        self.losses = nn.ModuleDict()
        self._owners: dict[str, tuple[str, str]] = {}  # public name -> (loss, its term)
        self._schedules: dict[str, Schedule] = {}  # public name -> its weight over training
        self._begin: dict[str, int] = {}  # public name -> the step from which it counts

    def add(self, name: str, loss: AuxiliaryLoss) -> None:
        """Take a loss under a name, and its terms under theirs or, where taken, under both."""
        if not name.isidentifier():
            raise UserError(f"auxiliary name '{name}' must be a plain word such as 'contrastive'.")
        if hasattr(self.losses, name):
            raise UserError(f"auxiliary '{name}' needs another name: every torch module has that.")
        if not loss.weights:
            raise UserError(
                f"auxiliary '{name}' has no terms: its __init__ must call "
                "self.declare('a term', coef=...) for each that forward() returns."
            )
        self.losses[name] = loss
        for term in loss.weights:
            public = term if term not in self._owners else f"{name}_{term}"
            if public in self._owners or public in RESERVED:
                raise UserError(f"auxiliary '{name}': its term '{term}' needs another name.")
            self._owners[public] = (name, term)
            self._schedules[public] = schedule(loss.weights[term], name=f"weight of '{public}'")
            self._begin[public] = loss.begin.get(term, 0)

    def each(self) -> Iterator[AuxiliaryLoss]:
        """The losses in the order they were added."""
        for loss in self.losses.values():
            assert isinstance(loss, AuxiliaryLoss)
            yield loss

    def counting(self, begun: Container[str]) -> list[AuxiliaryLoss]:
        """The losses of which a term has begun."""
        names = {loss for public, (loss, _) in self._owners.items() if public in begun}
        return [loss for name, loss in self.losses.items() if name in names]  # type: ignore[misc]

    @property
    def names(self) -> set[str]:
        """Every term's name in the log."""
        return set(self._owners)

    def weights(self, step: int, progress_remaining: float) -> dict[str, float]:
        """The weight of every term that has begun."""
        return {
            term: float(coefficient(progress_remaining))
            for term, coefficient in self._schedules.items()
            if step >= self._begin[term]
        }

    def compute(self, batch: Batch, wanted: set[str], encoder: Encoder) -> dict[str, Tensor]:
        """The wanted terms of a batch, each one number; anything else is refused by name."""
        terms: dict[str, Tensor] = {}
        for name, loss in self.losses.items():
            public = {term: p for p, (owner, term) in self._owners.items() if owner == name}
            begun = frozenset(term for term, p in public.items() if p in wanted)
            if not begun:
                continue
            found = loss(batch.wanting(begun), encoder)
            if not isinstance(found, Mapping):
                raise UserError(
                    f"auxiliary '{name}' must return a dict of terms such as "
                    f"{{'{min(begun)}': loss}}, got {type(found).__name__}."
                )
            if not begun <= set(found) <= set(public):
                raise UserError(
                    f"auxiliary '{name}' computes the terms {sorted(found)}, but has weights "
                    f"for {sorted(public)}: each term needs one weight, each weight one term."
                )
            for term, value in found.items():
                number = _number(name, term, value, batch.observations.device)
                if term in begun:
                    terms[public[term]] = number
        return terms


class DryBatch(Batch):
    """A batch that names the field a loss reads although the algorithm does not supply it."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if value is None and name in OPTIONAL:
            raise UserError(
                f"an auxiliary loss reads batch.{name}, which this algorithm does not supply: "
                f"say needs = frozenset({{'{name}'}}) in its class, and use another algorithm."
            )
        return value


class LentContext(Context):
    """A context that notes whether a loss has asked for the run's augmentation."""

    lent: bool = False

    def __getattribute__(self, name: str) -> Any:
        if name == "augmentation":
            self.lent = True
        return super().__getattribute__(name)


def require_own_parameters(losses: nn.ModuleDict, policy: nn.Module) -> None:
    """Refuse a loss that holds parameters of the policy, which the policy trains already."""
    taken = {id(parameter) for parameter in policy.parameters()}
    for name, loss in losses.items():
        for path, parameter in loss.named_parameters():
            if id(parameter) in taken:
                raise UserError(
                    f"auxiliary '{name}' keeps a parameter of the policy as its own ('{path}'): "
                    "use the encoder that forward() is given, or keep a copy."
                )


def mirrored_actions(meanings: Sequence[str] | None) -> Tensor | None:
    """For each action the one with LEFT and RIGHT exchanged, or None where there are none."""
    found = mirrored(meanings)
    return None if found is None else torch.tensor(found)


def _number(name: str, term: str, value: Any, device: torch.device) -> Tensor:
    """A term as a scalar tensor; a loss with nothing to say may give a plain 0.0."""
    if isinstance(value, int | float):
        return torch.tensor(float(value), device=device)
    shape = value.shape if isinstance(value, Tensor) else None
    if shape != ():
        got = type(value).__name__ if shape is None else f"shape {tuple(shape)}"
        raise UserError(f"auxiliary '{name}': term '{term}' must be one number, got {got}.")
    return value  # type: ignore[no-any-return]
