"""The costlier instruments, for the first minibatch of every k-th update; they change nothing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reprl.algorithms.update import Losses
from reprl.encoders.base import Encoder, as_images
from reprl.instruments import MaskMonitor, inspect


def watch(losses: Losses, extractor: nn.Module, monitor: MaskMonitor) -> dict[str, float]:
    """Numbers for the log: gradients of each term on the encoder, dead units, mask health."""
    parameters = [p for p in extractor.parameters() if p.requires_grad]
    if not parameters or losses.observations.dtype != torch.uint8:
        return {}  # SB3's policies on vectors have no encoder to look at
    numbers = gradients(losses.weighted, parameters)
    encoder = extractor if isinstance(extractor, Encoder) else _AsEncoder(extractor)
    images = as_images(losses.observations)
    dead, mask = inspect(encoder, images)  # type: ignore[arg-type]
    for layer, share in dead.items():
        numbers[f"dead_units/{layer.removeprefix('inner.')}"] = share
    if losses.attention is not None:
        report = monitor.look(losses.attention, mask)
        numbers |= {f"attention/{name}": value for name, value in report.numbers().items()}
    return numbers


def gradients(weighted: dict[str, Tensor], parameters: Sequence[nn.Parameter]) -> dict[str, float]:
    """Each weighted term's gradient on the encoder: its norm, and its cosine to the RL gradient."""
    learning = weighted["policy"] + weighted["entropy"] + weighted["value"]
    reference = _gradient(learning, parameters)
    numbers = {"gradient/rl_norm": reference.norm().item()}
    for name, term in weighted.items():
        if name in ("policy", "entropy", "value"):
            continue
        gradient = _gradient(term, parameters)
        numbers[f"gradient/{name}_norm"] = gradient.norm().item()
        cosine = torch.nn.functional.cosine_similarity(gradient, reference, dim=0)
        numbers[f"gradient/{name}_cosine"] = cosine.item()
    return numbers


def _gradient(term: Tensor, parameters: Sequence[nn.Parameter]) -> Tensor:
    """The gradient as one vector; zero where the term does not reach the encoder."""
    zeros = [torch.zeros_like(p) for p in parameters]
    if term.requires_grad:
        found = torch.autograd.grad(term, list(parameters), retain_graph=True, allow_unused=True)
        zeros = [z if g is None else g for z, g in zip(zeros, found, strict=True)]
    return torch.cat([g.reshape(-1) for g in zeros])


class _AsEncoder(nn.Module):
    """SB3's own extractor, seen by the dead-unit count as one of ours."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def encode(self, images: Tensor) -> Tensor:
        return self.inner(images)
