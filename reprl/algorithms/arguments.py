"""SB3's policy arguments with our encoder and optimizer in them, refused where they clash."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

from reprl.algorithms.specs import Specs, build_encoder
from reprl.encoders.base import Encoder
from reprl.errors import UserError

OPTIMIZERS = {
    "adam": torch.optim.Adam,
    "rmsprop": torch.optim.RMSprop,
    "rmsprop_tf": RMSpropTFLike,  # as in the original A2C: epsilon inside the root
}
# what our own forward pass takes for granted, while SB3's policy does without
GIVEN = ("share_features_extractor", "normalize_images")


def policy_arguments(given: dict[str, Any], specs: Specs, optimizer: str | None) -> dict[str, Any]:
    """SB3's policy arguments with our encoder in place of its features extractor."""
    arguments = dict(given["policy_kwargs"] or {})
    if optimizer is not None:
        if "optimizer_class" in arguments:
            raise UserError("policy_kwargs optimizer_class and optimizer exclude each other.")
        arguments["optimizer_class"] = OPTIMIZERS[optimizer]
        if optimizer != "adam":
            epsilon = given.get("rms_prop_eps", 1e-5)
            given_ones = arguments.get("optimizer_kwargs") or {}
            arguments["optimizer_kwargs"] = {"alpha": 0.99, "eps": epsilon} | given_ones
    if specs.encoder is None:
        return arguments
    for key in ("features_extractor_class", "features_extractor_kwargs"):
        if key in arguments:
            raise UserError(f"policy_kwargs {key} and encoder exclude each other: give one.")
    for key in GIVEN:
        _require(arguments.get(key, True), "encoder", key)
    arguments["features_extractor_class"] = build_encoder
    arguments["features_extractor_kwargs"] = {"spec": specs.encoder}
    # SB3 adds hidden layers behind any extractor but its own NatureCNN.
    arguments.setdefault("net_arch", [])
    return arguments


def require_defaults(policy: ActorCriticPolicy, mode: str) -> None:
    """Refuse a policy that our own forward pass would not follow; SB3's own may be anything."""
    if mode == "fast":
        what = "mode=fast"
    elif isinstance(policy.features_extractor, Encoder):
        what = f"encoder {type(policy.features_extractor).__name__}"
    else:
        return
    for key in GIVEN:
        _require(getattr(policy, key), what, key)


def _require(value: bool, what: str, key: str) -> None:
    if not value:
        raise UserError(f"{what} needs policy_kwargs {key}=True, SB3's default.")
