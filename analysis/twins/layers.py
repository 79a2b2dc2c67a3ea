"""Layer by layer: how alike clean and varied activations are, and which layer is to blame.

moments in every view -> **similarity, and what comes back when a layer is put right** -> rows of
`evaluation/layers.csv`. Two repairs: `whole` puts the clean twin's activation back, `offset` only
its mean over frames, which undoes a displacement and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from reprl import tables
from reprl.analysis.probe.layers import activations, layer_modules
from reprl.analysis.probe.record import PLAYERS, Moments
from reprl.analysis.probe.subject import subject
from reprl.envs.defaults import CLEAN
from reprl.envs.protocol import VariantSpec
from reprl.errors import UserError
from reprl.evaluation.checkpoints import Measured
from reprl.evaluation.twin import comparable, jensen_shannon
from reprl.evaluation.variants import expand, label
from reprl.policy import PolicyPlayer, State
from reprl.schema import FILES, LAYERS
from reprl.settings import TWINS
from reprl.validation import checker, choice

BATCH = 64
SMALLEST = 1e-6  # nats or value by which a view must differ for a share of it to mean anything
Outputs = list[Tensor]  # of a module, one (n, ...) for each time that it is called in a pass
Repair = Callable[[Tensor, slice, int], Tensor]  # output, rows of the batch, which call -> output


class Said(NamedTuple):
    """What a network makes of n frames."""

    probs: np.ndarray  # (n, A)
    values: np.ndarray  # (n,)


def layers(
    agent: Any,
    variants: VariantSpec | Iterable[VariantSpec],
    *,
    frames: int = 400,
    games: int = 8,
    every: int = 4,
    seed: int = 0,
    player: str = "agent",
    labels: dict[str, Any] | None = None,
    **settings: Any,
) -> pd.DataFrame:
    """One row for each variant and layer, in the order of computation.

    cka, cosine and distance (as a share of the clean frames' spread) compare the activations.
    policy_returned and value_returned are the shares of the policy's and of the value's change
    that a clean activation in this layer undoes, policy_offset and value_offset those that its
    clean mean undoes; blame is what this layer returns beyond all layers before it.
    """
    began = time.perf_counter()
    check = checker(TWINS)
    frames, games, every = check("frames", frames), check("games", games), check("every", every)
    seed = check("seed", seed)
    choice("player", player, PLAYERS)
    who = subject(agent, labels, settings, "a comparison of layers")
    chosen, problems = comparable(expand(variants, (), who.game))
    if not chosen:
        raise UserError(
            "variants: layers are compared between pictures, so name one that changes the picture "
            "and not the game."
        )
    moments = who.moments(
        chosen, frames=frames, games=range(games), every=every, seed=seed, player=player
    )
    rows = _rows(who.watcher, moments, [(label(v), v.severity) for v in chosen])
    about = who.about | {"player": player, "eval_seed": seed}
    about |= {"n_frames": len(moments.games), "n_games": games}
    table = pd.DataFrame([about | row for row in rows], columns=list(LAYERS.columns))
    table.attrs["problems"] = problems
    table.attrs["seconds"] = time.perf_counter() - began
    return table


def write(target: Measured, table: pd.DataFrame) -> Path:
    """Put the rows beside the evaluation; the same measurement made again is replaced."""
    path = target.place / FILES["layers"]
    tables.merge(path, table, LAYERS)
    return path


def _rows(
    watcher: PolicyPlayer, moments: Moments, views: list[tuple[str, float | None]]
) -> Iterator[dict[str, Any]]:
    everything = np.arange(len(moments.games))
    clean, state = moments.rows(CLEAN, everything)
    truth, kept = recorded(watcher, clean, state)
    reference = activations(watcher, clean, state)
    for view, severity in views:
        varied, other = moments.rows(view, everything)
        broken, raw = recorded(watcher, varied, other)
        change = differences(broken, truth)
        about = {"variant": view, "severity": severity, "js": change[0], "value_error": change[1]}
        about["flips"] = float((broken.probs.argmax(1) != truth.probs.argmax(1)).mean())
        before = 0.0
        for name, seen in activations(watcher, varied, other).items():
            row: dict[str, Any] = about | {"layer": name, "inputs": seen.shape[1]}
            row |= similarity(reference[name], seen)
            undone = said(watcher, varied, other, name, whole(kept[name]))
            row["policy_returned"], row["value_returned"] = returned(undone, truth, change)
            undone = said(watcher, varied, other, name, offset(kept[name], raw[name]))
            row["policy_offset"], row["value_offset"] = returned(undone, truth, change)
            row["blame"] = max(0.0, row["policy_returned"] - before)
            before = max(before, row["policy_returned"])
            yield row


# -- similarity -------------------------------------------------------------------------------


def similarity(clean: np.ndarray, varied: np.ndarray) -> dict[str, float]:
    """Of the activations (n, units) of the same n states: 1, 1 and 0 where nothing changed."""
    a, b = clean.astype(np.float64), varied.astype(np.float64)
    size = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosine = np.divide((a * b).sum(axis=1), size, out=np.zeros(len(a)), where=size > 0)
    spread = np.sqrt(((a - a.mean(axis=0)) ** 2).sum(axis=1).mean())
    moved = np.sqrt(((a - b) ** 2).sum(axis=1).mean())
    return {
        "cka": linear_cka(a, b),
        "cosine": float(cosine.mean()),
        "distance": float(moved / spread) if spread > 0 else float("nan"),
    }


def linear_cka(a: np.ndarray, b: np.ndarray) -> float:
    """Centred kernel alignment with a linear kernel (Kornblith et al. 2019) of (n, units) each."""
    first, second = (x @ x.T for x in (a - a.mean(axis=0), b - b.mean(axis=0)))
    size = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float((first * second).sum()) / size if size > 0 else float("nan")


# -- putting a layer right --------------------------------------------------------------------


def whole(clean: Outputs) -> Repair:
    """Put the clean twin's own output of each frame there."""
    return lambda output, rows, call: clean[call][rows].to(output.device)


def offset(clean: Outputs, varied: Outputs) -> Repair:
    """Take away by how much the mean output over all frames differs, and nothing else."""
    moved = [a.mean(dim=0) - b.mean(dim=0) for a, b in zip(clean, varied, strict=True)]
    return lambda output, rows, call: output + moved[call].to(output.device)


def recorded(
    player: PolicyPlayer, observations: np.ndarray, state: State
) -> tuple[Said, dict[str, Outputs]]:
    """What the network says, and the output of every layer before its activation function."""
    found: dict[str, list[Outputs]] = {}
    handles = []

    def keep(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
            found[name][-1].append(output.detach().clone())

        return hook

    modules = layer_modules(player)
    try:
        for name, module in modules.items():
            found[name] = []
            handles.append(module.register_forward_hook(keep(name)))

        def begin() -> None:
            for batches in found.values():
                batches.append([])

        answer = _passes(player, observations, state, lambda rows: begin())
    finally:
        for handle in handles:
            handle.remove()
    outputs = {
        name: [torch.cat(calls) for calls in zip(*batches, strict=True)]
        for name, batches in found.items()
    }
    return answer, outputs


def said(
    player: PolicyPlayer, observations: np.ndarray, state: State, layer: str, repair: Repair
) -> Said:
    """What the network says when one layer is put right on the way."""
    now: dict[str, Any] = {"rows": slice(0), "call": 0}

    def begin(rows: slice) -> None:
        now.update(rows=rows, call=0)

    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        now["call"] += 1
        return repair(output, now["rows"], now["call"] - 1)

    handle = layer_modules(player)[layer].register_forward_hook(hook)
    try:
        return _passes(player, observations, state, begin)
    finally:
        handle.remove()


@torch.no_grad()
def _passes(
    player: PolicyPlayer, observations: np.ndarray, state: State, begin: Callable[[slice], None]
) -> Said:
    policy = player.policy
    training, probs, values = policy.training, [], []
    policy.set_training_mode(False)
    try:
        for start in range(0, len(observations), BATCH):
            rows = slice(start, start + BATCH)
            begin(rows)
            batch = torch.as_tensor(observations[rows], device=policy.device)
            step, _ = player.forward(batch, tuple(part[rows] for part in state))
            probs.append(step.probs.double().cpu().numpy())
            values.append(step.values.double().cpu().numpy())
    finally:
        policy.set_training_mode(training)
    return Said(np.concatenate(probs), np.concatenate(values))


def differences(one: Said, other: Said) -> tuple[float, float]:
    """Mean Jensen-Shannon divergence of the policies, in nats, and mean |difference| of values."""
    pairs = zip(one.probs, other.probs, strict=True)
    policy = float(np.mean([jensen_shannon(p, q) for p, q in pairs]))
    return policy, float(np.abs(one.values - other.values).mean())


def returned(repaired: Said, clean: Said, change: tuple[float, float]) -> tuple[float, float]:
    """Which share of the change of policy and value is undone; NaN where there was none.

    1 is all of it, 0 nothing; below 0 the repair made it worse.
    """
    left = differences(repaired, clean)
    policy, value = (
        1 - after / before if before > SMALLEST else float("nan")
        for after, before in zip(left, change, strict=True)
    )
    return policy, value
