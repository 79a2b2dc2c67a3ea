"""What algorithms from a replay buffer and those on Ray share: SB3's class, built with our encoder.

configuration -> **SB3's constructor** -> our update (`reprl.algorithms.off_policy`) or RLlib's
(`reprl.algorithms.on_ray`), saved, resumed and evaluated as any other. Masks, auxiliary losses and
augmentations are for those whose `extras` say so.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from reprl import components
from reprl.algorithms.base import Algorithm
from reprl.algorithms.on_policy import begin_weights, build_encoder
from reprl.checkpoint.serialization import SCHEDULED
from reprl.components import Specs, agent_specs
from reprl.errors import UserError
from reprl.schedules import is_spec, schedule
from reprl.settings import CLASSES
from reprl.validation import checker


class Stock(Algorithm):
    """Mixed in before a class of SB3 or sb3-contrib: takes its arguments, and our parts beside."""

    extras: ClassVar[tuple[str, ...]] = ("attention",)  # what it takes besides an encoder

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        encoder: components.Spec | None = None,
        attention: components.Spec | None = None,
        auxiliary: components.Auxiliary = None,
        augmentation: components.Spec | None = None,
        mode: str = "plain",
        **kwargs: Any,
    ) -> None:
        name = type(self).__name__
        parts = {"attention": attention, "auxiliary": auxiliary, "augmentation": augmentation}
        for part, chosen in parts.items():
            if part not in self.extras and chosen not in (None, "none"):
                raise UserError(f"{name} has no {part}: set {part}=none.")
        if mode != "plain":
            raise UserError(f"{name} has no fast mode: set mode=plain.")
        self.specs: Specs = agent_specs(
            encoder=encoder, attention=attention, auxiliary=auxiliary, augmentation=augmentation
        )
        try:
            bound = inspect.signature(self.stock.__init__).bind(self, policy, env, **kwargs)
        except TypeError as error:
            raise UserError(f"{name}: {error}.") from None
        given = {k: v for k, v in bound.arguments.items() if k not in ("self", "env")}
        check = checker(CLASSES[name])
        for key in CLASSES[name]:
            if key in given and not callable(given[key]):  # SB3 takes functions of the progress
                given[key] = check(key, given[key])
        for key in SCHEDULED:
            if is_spec(given.get(key)):
                given[key] = schedule(given[key], name=key)
        self.arguments = dict(given)
        if (seed := given.get("seed")) is not None:
            self._stream_seed = int(seed)
        given["policy_kwargs"] = self._policy_arguments(given.get("policy_kwargs"))
        super().__init__(env=env, **given)

    def _policy_arguments(self, given: dict[str, Any] | None) -> dict[str, Any] | None:
        """SB3's policy arguments with our encoder in place of its features extractor."""
        spec = self.specs.encoder
        if spec is None:
            return None if given is None else dict(given)  # SB3 writes into it
        arguments = dict(given or {})
        arguments["features_extractor_class"] = build_encoder
        arguments["features_extractor_kwargs"] = {"spec": spec}
        heads = components.class_of("encoder", str(spec["_target_"])).heads(spec)
        for key, value in self._heads(heads).items():
            arguments.setdefault(key, value)
        return arguments

    def _setup_model(self) -> None:
        super()._setup_model()
        begin_weights(self.policy, self.specs, self._stream_seed)

    def _heads(self, heads: dict[str, Any]) -> dict[str, Any]:
        """What lies between features and last layers, as this policy takes it."""
        return heads

    def settings(self) -> dict[str, Any]:
        specs, found = self.specs, {"encoder": self.specs.encoder, "mode": self.mode}
        if specs.auxiliary:
            found["auxiliary"] = specs.auxiliary
        if specs.augmentation is not None:
            found["augmentation"] = specs.augmentation | {"use": specs.use}
        return found
