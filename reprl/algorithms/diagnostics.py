"""Diagnostics of an update: gradients of each term, health of the features, state of the mask.

The update asks for these on the first minibatch of every k-th time and logs what they say; they
read, and change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from reprl.algorithms.health import dormant_units, effective_rank, feature_norm
from reprl.algorithms.update import Losses
from reprl.encoders.base import Encoder, as_images
from reprl.encoders.hard import gate_of
from reprl.encoders.masks import Mask
from reprl.reduction import OneProcess, Reduction
from reprl.schema import LABELS, is_open


def dead_units(encoder: Encoder, images: Tensor) -> dict[str, float]:
    """Share of units (channels, or features) of each ReLU that fire nowhere on images (B, C, H, W).

    Layers go by their names in the encoder.
    """
    return inspect(encoder, images)[0]


@torch.no_grad()
def inspect(encoder: Encoder, images: Tensor) -> tuple[dict[str, float], Tensor | None]:
    """One forward pass with hooks on it: the dead units, and what the mask itself said.

    The mask's own output (N, 1, h, w) is before the floor and before an unbounded mask is divided
    by its maximum; None without a mask of reprl's.
    """
    fired: dict[str, Tensor] = {}
    raw: list[Tensor] = []

    def watch(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
            now = (output > 0).transpose(0, 1).flatten(1).any(1)  # (units,)
            fired[name] = fired[name] | now if name in fired else now  # a layer may run twice

        return hook

    layers = {n: m for n, m in encoder.named_modules() if isinstance(m, nn.ReLU)}
    handles = [layer.register_forward_hook(watch(name)) for name, layer in layers.items()]
    for mask in (m for m in encoder.modules() if isinstance(m, Mask)):
        handles.append(mask.register_forward_hook(lambda *call: raw.append(call[2])))
    training = encoder.training
    try:
        encoder.eval()  # dropout would make units look dead
        encoder.encode(images)
    finally:
        encoder.train(training)
        for handle in handles:
            handle.remove()
    dead = {name: 1 - alive.float().mean().item() for name, alive in fired.items()}
    return dead, raw[-1] if raw else None


def mask_mean(attention: Tensor) -> float:
    """The mean cell of attention (B, K, h, w); relative to its maximum where max-normalised."""
    return attention.detach().mean().item()


def mask_entropy(attention: Tensor) -> float:
    """Entropy over a map's cells, averaged: 0 = one cell, 1 = all cells alike (or all black)."""
    maps = _maps(attention).flatten(1) + 1e-9
    share = maps / maps.sum(1, keepdim=True)
    entropy = -(share * share.log()).sum(1)
    return (entropy / math.log(max(share.shape[1], 2))).mean().item()


def is_black(attention: Tensor, *, below: float = 0.1) -> bool:
    """On average over the maps, even the brightest cell is dark: nothing gets through.

    Wants a mask's own output: a map divided by its maximum always has a bright cell.
    """
    return _maps(attention).amax((1, 2)).mean().item() < below


def is_saturated(attention: Tensor, *, above: float = 0.9) -> bool:
    """On average over the maps, even the darkest cell is bright: everything gets through."""
    return _maps(attention).amin((1, 2)).mean().item() > above


def is_border(attention: Tensor, *, share: float = 0.9) -> bool:
    """On average, over `share` of what stands out from a map's minimum lies on its outer ring."""
    maps = _maps(attention)
    if min(maps.shape[1:]) < 4 or not _has_contrast(maps):
        return False  # such a small map is mostly ring
    standing_out = maps - maps.amin((1, 2), keepdim=True)
    inner = standing_out[:, 1:-1, 1:-1].sum((1, 2)) / standing_out.sum((1, 2)).clamp(min=1e-9)
    return 1 - inner.mean().item() > share


def common_peak(attention: Tensor) -> tuple[int, float]:
    """The cell (row-major index) where most maps have their peak, and the share that do."""
    cells = _maps(attention).flatten(1)
    counts = torch.bincount(cells.argmax(1), minlength=cells.shape[1])
    return int(counts.argmax()), counts.max().item() / len(cells)


@dataclass(frozen=True)
class MaskReport:
    """One look at a mask."""

    mean: float
    entropy: float
    labels: tuple[str, ...]  # of LABELS, empty for a healthy mask

    def numbers(self) -> dict[str, float]:
        """For a logger: the mean, the entropy and one 0/1 a label."""
        flags = {label: float(label in self.labels) for label in LABELS}
        return {"mean": self.mean, "entropy": self.entropy, **flags}


@dataclass
class MaskMonitor:
    """Looks at a mask update after update; a peak in one place all along is called stuck.

    A single batch cannot tell: early in a game all samples may rightly look at the same place.
    """

    patience: int = 10  # looks in a row before a peak counts as stuck
    share: float = 0.95  # of the maps that must peak in the same cell
    _cell: int = field(default=-1, init=False)
    _looks: int = field(default=0, init=False)

    def look(
        self, attention: Tensor, raw: Tensor | None = None, gate: Tensor | None = None
    ) -> MaskReport:
        """Judge attention (B, K, h, w) in [0, 1] of one batch.

        `raw` is the mask's own output, by which black is judged: attention of an unbounded mask
        is divided by its maximum. Of a hard mask the `gate` says what gets through.
        """
        through = attention if gate is None else gate
        black = is_black(through if raw is None or gate is not None else raw)
        saturated = not black and is_saturated(through)
        mean, entropy = mask_mean(attention), mask_entropy(attention)
        opened = is_open(mask_mean(through), mask_entropy(through))
        self._follow(attention)
        found = {
            "black": black,
            "saturated": saturated,
            "open": not black and not saturated and opened,
            "stuck": self._looks >= self.patience,
            "border": not black and is_border(attention),
        }
        labels = tuple(label for label in LABELS if found[label])
        return MaskReport(mean, entropy, labels)

    def _follow(self, attention: Tensor) -> None:
        cell, share = common_peak(attention)
        peaked = share >= self.share and _has_contrast(_maps(attention))
        self._looks = 0 if not peaked else self._looks + 1 if cell == self._cell else 1
        self._cell = cell if peaked else -1

    def state(self) -> dict[str, int]:
        """JSON-able, for checkpoints."""
        return {"cell": self._cell, "looks": self._looks}

    def load_state(self, state: dict[str, int]) -> None:
        self._cell, self._looks = int(state["cell"]), int(state["looks"])


def _maps(attention: Tensor) -> Tensor:
    """(B, K, h, w) -> (B*K, h, w) without gradient."""
    return attention.detach().flatten(0, 1).float()


def _has_contrast(maps: Tensor, least: float = 0.1) -> bool:
    # the peak of a flat map is noise
    return (maps.amax((1, 2)) - maps.amin((1, 2))).mean().item() > least


def diagnose(
    losses: Losses,
    extractor: nn.Module,
    monitor: MaskMonitor,
    reduction: Reduction | None = None,
) -> dict[str, float]:
    """Numbers for the log: gradients of each term on the encoder, its features, mask health.

    With a reduction they are those of the whole minibatch, of which this process has a share.
    """
    if not list(extractor.parameters()) or losses.observations.dtype != torch.uint8:
        return {}  # SB3's policies on vectors have no encoder to look at
    reduction = reduction or OneProcess()
    trained = [p for p in extractor.parameters() if p.requires_grad]  # none of a frozen encoder
    numbers = gradients(losses.own, losses.auxiliary, trained, reduction) if trained else {}
    encoder: Any = extractor if isinstance(extractor, Encoder) else _AsEncoder(extractor)
    images = as_images(reduction.gathered(losses.observations))
    dead, mask = inspect(encoder, images)
    for layer, share in dead.items():
        numbers[f"dead_units/{layer.removeprefix('inner.')}"] = share
    dormant, features = dormant_units(encoder, images)
    for layer, share in dormant.items():
        numbers[f"dormant_units/{layer.removeprefix('inner.')}"] = share
    numbers["features/effective_rank"] = effective_rank(features)
    numbers["features/norm"] = feature_norm(features)
    numbers["features/rms"] = features.square().mean().sqrt().item()
    if losses.attention is not None:
        attention = reduction.gathered(losses.attention)
        report = monitor.look(attention, mask, gate_of(extractor, attention))
        numbers |= {f"attention/{name}": value for name, value in report.numbers().items()}
    return numbers


def gradients(
    own: dict[str, Tensor],
    auxiliary: dict[str, Tensor],
    parameters: Sequence[nn.Parameter],
    reduction: Reduction | None = None,
) -> dict[str, float]:
    """Each auxiliary term's gradient on the encoder: its norm, and its cosine to the RL gradient.

    `own` are the algorithm's weighted terms, whose sum makes that gradient; where it has none, as
    in pretraining, there is no angle.
    """
    reduction = reduction or OneProcess()
    numbers: dict[str, float] = {}
    reference = None
    if own:
        first, *others = own.values()
        learning = first
        for term in others:
            learning = learning + term
        reference = _gradient(learning, parameters, reduction)
        numbers["gradient/rl_norm"] = reference.norm().item()
    for name, term in auxiliary.items():
        gradient = _gradient(term, parameters, reduction)
        numbers[f"gradient/{name}_norm"] = gradient.norm().item()
        if reference is None:
            continue
        cosine = torch.nn.functional.cosine_similarity(gradient, reference, dim=0)
        numbers[f"gradient/{name}_cosine"] = cosine.item()
    return numbers


def _gradient(term: Tensor, parameters: Sequence[nn.Parameter], reduction: Reduction) -> Tensor:
    """The gradient as one vector; zero where the term does not reach the encoder."""
    zeros = [torch.zeros_like(p) for p in parameters]
    if term.requires_grad:
        found = torch.autograd.grad(term, list(parameters), retain_graph=True, allow_unused=True)
        zeros = [z if g is None else g for z, g in zip(zeros, found, strict=True)]
    vector = torch.cat([g.reshape(-1) for g in zeros])
    return vector if reduction.size == 1 else reduction.gathered(vector[None]).mean(0)


class _AsEncoder(nn.Module):
    """SB3's own extractor, seen by the dead-unit count as one of ours."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def encode(self, images: Tensor) -> Tensor:
        return self.inner(images)

    def forward(self, images: Tensor) -> Tensor:
        return self.inner(images)
