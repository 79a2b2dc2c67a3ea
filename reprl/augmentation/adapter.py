"""Anybody's picture modules as augmentations: kornia's, or any `nn.Module` by its `_target_`.

observations -> **adapter** -> module -> view. Such modules draw from torch's global generator, so
each call hands them a seed from our stream and puts the global ones back: the draws are
reproducible, and a checkpoint of our stream is all that a continued run needs.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reprl import trust
from reprl.augmentation.base import Augmentation, View, to_uint8
from reprl.components import BASES, described, imported
from reprl.errors import UserError
from reprl.naming import class_name
from reprl.rng import isolated
from reprl.settings import CLASSES, FRACTION
from reprl.validation import checker

# what of kornia changes pictures; its networks would fetch weights from somewhere
KORNIA = tuple(f"kornia.{name}" for name in ("augmentation", "enhance", "filters", "color"))
OTHERS = ("encoder", "attention", "auxiliary")  # modules too, but none that makes pictures
FETCHING = {"RandomDissolving", "StableDiffusionDissolving", "DexiNed"}


def adaptable(target: Any) -> bool:
    """Whether a class is a module that may change pictures: kornia's, or a user's own."""
    if not isinstance(target, type) or not issubclass(target, nn.Module):
        return False
    if any(issubclass(target, imported(BASES[group])) for group in OTHERS):
        return False
    if target.__name__ in FETCHING or "pretrained" in inspect.signature(target).parameters:
        return not trust.is_ours(target.__module__)
    return not trust.is_ours(target.__module__) or target.__module__.startswith(KORNIA)


class ModuleAugmentation(Augmentation):
    """A module that maps float pictures (B, channels, H, W) in [0, 1] to such pictures.

    All frames of a stack get the same draws: each is given to the module with the same seed, or
    all at once where kornia's geometry treats channels alike. `channels` is 1 for gray frames, 3
    for colour. `moves` may say of a module of your own that it leaves everything in its place.
    """

    def __init__(
        self, *, module: Mapping[str, Any], channels: int = 1, moves: bool | None = None
    ) -> None:
        super().__init__()
        self.channels = checker(CLASSES["ModuleAugmentation"], self)("channels", channels)
        self.target = str(module.get("_target_") if isinstance(module, Mapping) else module)
        self.module = _built(self.target, module)
        parts = [part for part in self.module.modules() if _is_augmentation(part)]
        flips = [p for p in parts if type(p).__name__ == "RandomHorizontalFlip"]
        if flips and flips != [self.module]:
            raise self._refusal(
                "mirrors inside another module, where actions cannot follow: put `flip` and the "
                "others into reprl.augmentation.Compose"
            )
        self.mirrors = bool(flips)
        self.moves = _moves(self.module, parts) if moves is None else bool(moves)
        self.whole = _is_geometric(self.module)  # its draws do not depend on the channels
        for part in self.module.modules():  # kornia's ranges, which the spec gives again
            for name, constant in list(part.named_buffers(recurse=False)):
                if type(part).__module__.startswith("kornia."):
                    part.register_buffer(name, constant, persistent=False)

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        stack = observations.shape[1]
        if stack % self.channels:
            raise self._refusal(
                f"channels={self.channels} does not divide the {stack} channels of the observations"
            )
        step = stack if self.whole else self.channels
        seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        pictures = observations.float() / 255
        with isolated(), torch.no_grad():
            frames = [self._one(pictures[:, i : i + step], seed) for i in range(0, stack, step)]
        changed = frames[0] if len(frames) == 1 else torch.cat(frames, dim=1)
        mirrored = None
        if self.mirrors:
            draws: Any = self.module._params
            mirrored = draws["batch_prob"].to(observations.device) > 0.5
        return View(to_uint8(changed * 255), mirrored)

    def _one(self, pictures: Tensor, seed: int) -> Tensor:
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            changed = self.module(pictures)
        except UserError:
            raise
        except Exception as error:
            if not type(self.module).__module__.startswith("kornia."):
                raise  # the user's own line is named where it is caught
            shape = tuple(pictures.shape)
            raise self._refusal(f"cannot take pictures of shape {shape}: {described(error)}") from (
                error
            )
        if not isinstance(changed, Tensor) or changed.shape != pictures.shape:
            got = tuple(changed.shape) if isinstance(changed, Tensor) else type(changed).__name__
            raise self._refusal(f"makes {got} out of pictures of shape {tuple(pictures.shape)}")
        if not torch.isfinite(changed).all():
            raise self._refusal("makes pictures with infinite values or NaN")
        return changed

    def _refusal(self, text: str) -> UserError:
        return UserError(f"augmentation {class_name(self.target)}: it {text.rstrip('.')}.")


def _built(target: str, module: Mapping[str, Any]) -> nn.Module:
    if not isinstance(module, Mapping) or not module.get("_target_"):
        raise UserError(f"augmentation: module must be a mapping with _target_, got {module!r}.")
    try:
        kind = imported(target)
    except UserError:
        raise
    except Exception as error:
        said = described(error)
        raise UserError(f"augmentation: cannot import _target_ '{target}': {said}") from error
    if not adaptable(kind):
        raise UserError(
            f"augmentation: _target_ '{target}' must be a class of {', '.join(KORNIA)}, or a "
            "torch.nn.Module of your own, that changes pictures without weights to fetch."
        )
    arguments = {str(k): v for k, v in module.items() if k != "_target_"}
    ours = kind.__module__.startswith("kornia.")
    if ours and "p" in arguments:
        FRACTION.checked(f"augmentation {kind.__name__}: p", arguments["p"])  # kornia takes any
    try:
        built = kind(**{k: _tuples(v) for k, v in arguments.items()} if ours else arguments)
    except UserError:
        raise
    except Exception as error:
        if not ours and not isinstance(error, TypeError):
            raise
        raise UserError(f"augmentation '{target}': {described(error)}") from error
    if _mixes(built):
        raise UserError(
            f"augmentation '{target}' mixes samples, or takes something else than pictures: "
            "actions and returns could not follow."
        )
    assert isinstance(built, nn.Module)
    return built


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def _is_augmentation(module: nn.Module) -> bool:
    return _derives(module, "_AugmentationBase")


def _is_geometric(module: nn.Module) -> bool:
    return _derives(module, "GeometricAugmentationBase2D")


def _mixes(module: nn.Module) -> bool:
    return any(
        _derives(part, "MixAugmentationBaseV2") or _derives(part, "AugmentationBase3D")
        for part in module.modules()
    )


def _derives(module: nn.Module, name: str) -> bool:
    """Whether a module is of one of kornia's families, asked without importing kornia."""
    kinds = type(module).__mro__
    return any(k.__name__ == name and k.__module__.startswith("kornia.") for k in kinds)


def _moves(module: nn.Module, parts: list[nn.Module]) -> bool:
    """Whether things may change their places: known of kornia's, assumed of anybody else's."""
    if not type(module).__module__.startswith("kornia."):
        return True
    if type(module).__module__.startswith(("kornia.enhance", "kornia.filters", "kornia.color")):
        return False
    if not parts or type(module).__name__ == "PatchSequential":
        return True
    return not all(_derives(part, "IntensityAugmentationBase2D") for part in parts)
