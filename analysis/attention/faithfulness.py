"""Faithfulness: does the policy really depend on what a map marks?

Deletion takes the most attended pixels away first, insertion brings them back first; a faithful
map changes the policy sooner than the same number of pixels in another order. Masked play asks the
same of the score of whole games.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor, nn

from reprl.analysis.attention.network import Network, kl
from reprl.analysis.attention.scores import over_blocks
from reprl.analysis.attention.views import Attribution, look, make_view, pixel_maps
from reprl.analysis.stats import estimate, mean
from reprl.envs.protocol import VariantSpec
from reprl.envs.vector import make_vec_env
from reprl.evaluation.play_loop import PlayLoop
from reprl.policy import State, sample_actions
from reprl.rng import numpy_stream, torch_stream

SHARES = tuple(np.linspace(0, 1, 11).round(2).tolist()) + (0.01, 0.02, 0.05)
ORDERS = ("attention", "random", "shifted")
CONDITIONS = ("intact", "attended removed", "random removed", "attended only", "random only")


def typical_picture(observations: np.ndarray) -> np.ndarray:
    """What stands where a pixel is taken away: its median over time, (C, H, W) uint8.

    The median has walls and bricks but no ball; black would look like a hole in the wall.
    """
    return np.median(observations, axis=0).astype(observations.dtype)


def pixel_order(maps: np.ndarray, order: str, seed: int = 0) -> NDArray[np.intp]:
    """Each picture's pixels from first to last, (N, H*W).

    `shifted` is the map itself, moved by a random distance around the picture's edges: the same
    blobs elsewhere, which is a stronger rival than single pixels in `random` order.
    """
    stream = numpy_stream(seed, "attention", "faithfulness", order)
    count, height, width = maps.shape
    if order == "random":
        return np.stack([stream.permutation(height * width) for _ in range(count)])
    if order == "shifted":
        down = stream.integers(height // 4, 3 * height // 4, count)
        right = stream.integers(width // 4, 3 * width // 4, count)
        maps = np.stack([np.roll(maps[i], (down[i], right[i]), (0, 1)) for i in range(count)])
    # A tiny seeded term breaks ties at random, not from left to right.
    tiny = 1e-9 * (float(maps.max()) or 1.0)
    flat = maps.reshape(count, -1) + tiny * stream.random((count, height * width))
    return np.argsort(-flat, axis=1)


def replaced(
    observations: np.ndarray, order: np.ndarray, share: float, filling: np.ndarray, keep: bool
) -> np.ndarray:
    """Observations (N, C, H, W) without the first `share` of pixels, or with only those."""
    count, channels = observations.shape[:2]
    first = np.zeros(order.shape, dtype=bool)
    np.put_along_axis(first, order[:, : round(share * order.shape[1])], True, axis=1)
    mask = first.reshape(count, 1, *observations.shape[2:])
    return np.where(mask == keep, observations, filling[None, :channels])


def policy_curves(
    network: Network,
    observations: np.ndarray,
    maps: np.ndarray,
    *,
    filling: np.ndarray | None = None,
    seed: int = 0,
    state: State = (),
) -> dict[tuple[str, str], np.ndarray]:
    """KL(pi(I) || pi(I')) at every share of pixels: (test, order) -> (N, len(SHARES)) sorted."""
    filling = typical_picture(observations) if filling is None else filling
    clean = _logits(network, observations, state)
    shares = sorted(SHARES)
    curves = {}
    for name in ORDERS:
        order = pixel_order(maps, name, seed)
        for test in ("deletion", "insertion"):
            found = []
            for share in shares:
                changed = replaced(observations, order, share, filling, keep=test == "insertion")
                found.append(kl(clean, _logits(network, changed, state)))
            curves[test, name] = torch.stack(found, dim=1).numpy()
    return curves


def curve_table(
    curves: dict[tuple[str, str], np.ndarray], blocks: NDArray[np.integer]
) -> pd.DataFrame:
    """Areas under the curves with intervals over games, and each rival's paired difference.

    `advantage` is positive where the map's order does better than the rival: more KL when its
    pixels are deleted, less when they are inserted.
    """
    shares = np.array(sorted(SHARES))
    rows = []
    for (test, order), curve in curves.items():
        area = np.trapezoid(curve, shares, axis=1)  # (N,)
        own = np.trapezoid(curves[test, "attention"], shares, axis=1)
        sign = 1.0 if test == "deletion" else -1.0
        mean, gain = over_blocks(area, blocks), over_blocks(sign * (own - area), blocks)
        rows.append((test, order, mean.value, mean.low, mean.high, gain.value, gain.low, gain.high))
    names = ["test", "order", "area", "low", "high", "advantage", "advantage_low", "advantage_high"]
    table = pd.DataFrame(rows, columns=names)
    own_rows = table["order"] == "attention"
    table.loc[own_rows, names[5:]] = np.nan
    return table


def randomised(network: Network, seed: int = 0) -> Iterator[tuple[str, Network]]:
    """The network with its layers re-drawn one after the other, from the last to the first."""
    twin = copy.deepcopy(network)
    stream = torch_stream(seed, "attention", "randomise")
    layers = [(n, m) for n, m in twin.named_modules() if any(True for _ in m.parameters(False))]
    for name, layer in reversed(layers):
        _redraw(layer, stream)
        yield name, twin


@torch.no_grad()
def _redraw(layer: nn.Module, stream: torch.Generator) -> None:
    for parameter in layer.parameters(recurse=False):
        # Shuffled, so that the size of the weights stays what it was.
        places = torch.randperm(parameter.numel(), generator=stream).to(parameter.device)
        parameter.copy_(parameter.flatten()[places].view_as(parameter))


def sanity_check(
    view: Attribution, observations: np.ndarray, seed: int = 0, state: State = ()
) -> pd.DataFrame:
    """Similarity of maps to those of the trained network as its layers are randomised.

    A map that looks the same whatever the weights shows the picture, not the agent. What an agent
    with a memory carried is the trained one's throughout.
    """
    size = view.network.shape[1:]
    trained = pixel_maps(view, look(view, observations, state), size)
    rows = []
    for name, network in randomised(view.network, seed):
        other = make_view(network, view.name)
        maps = pixel_maps(other, look(other, observations, state), size)
        rows.append((name, similarity(trained, maps)))
    return pd.DataFrame(rows, columns=["randomised_up_to", "similarity"])


def similarity(a: np.ndarray, b: np.ndarray) -> float:
    """Mean Spearman correlation of maps (N, H, W), frame by frame; 0 where one is constant."""
    found = []
    for x, y in zip(a.reshape(len(a), -1), b.reshape(len(b), -1), strict=True):
        constant = np.ptp(x) == 0 or np.ptp(y) == 0
        found.append(0.0 if constant else float(stats.spearmanr(x, y).statistic))
    return float(np.mean(found))


@torch.no_grad()
def _logits(network: Network, observations: np.ndarray, state: State) -> Tensor:
    parts = []
    for i in range(0, len(observations), 256):
        some = slice(i, i + 256)
        images = network.images(observations[some])
        parts.append(network(images, *(part[some] for part in state)).cpu())
    return torch.cat(parts)


# -- on return: whole games with the attended pixels taken away, or alone --------------------------


def masked_returns(
    view: Attribution,
    variant: VariantSpec,
    filling: np.ndarray,
    *,
    share: float = 0.05,
    games: int = 8,
    seed: int = 0,
    max_steps: int = 2000,
    conditions: Sequence[str] = CONDITIONS,
    settings: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Mean score per condition with an interval over games; `share` of the pixels is meant.

    Game i is the same in all conditions, and its actions come from the same stream. A game that
    lasts longer than `max_steps` counts with the points it has.
    """
    rows = []
    for condition in conditions:
        scores = _masked_scores(
            view, variant, filling, condition, share, games, seed, max_steps, settings
        )
        found = estimate(mean, scores)
        rows.append((condition, share, found.value, found.low, found.high, games))
    names = ["condition", "share", "score", "low", "high", "n_games"]
    return pd.DataFrame(rows, columns=names)


def _masked_scores(
    view: Attribution,
    variant: VariantSpec,
    filling: np.ndarray,
    condition: str,
    share: float,
    games: int,
    seed: int,
    max_steps: int,
    settings: Mapping[str, Any] | None,
) -> np.ndarray:
    streams = [numpy_stream(seed, "attention", "masked play", i) for i in range(games)]
    scores, playing = np.zeros(games), np.ones(games, dtype=bool)
    env = make_vec_env(
        variant, n_envs=games, **{**(settings or {}), "training": False, "seed": seed}
    )
    try:
        loop = PlayLoop(env, view.network)
        for step in range(max_steps):
            seen = loop.observations
            if condition != "intact":
                seen = _changed(view, loop, filling, condition, share, seed + step)
            chances = loop.outputs(seen).probs
            actions = sample_actions(chances, np.array([s.random() for s in streams]))
            _, dones, infos = loop.step(np.where(playing, actions, -1))
            scores += [info["raw_reward"] * on for info, on in zip(infos, playing, strict=True)]
            playing &= ~dones
            if not playing.any():
                break
    finally:
        env.close()
    return scores


def _changed(
    view: Attribution, loop: PlayLoop, filling: np.ndarray, condition: str, share: float, seed: int
) -> np.ndarray:
    """The moment's pictures without the attended pixels, or with only those."""
    observations = loop.observations
    name = "random" if condition.startswith("random") else "attention"
    if name == "random":
        maps = np.zeros((len(observations), *view.network.shape[1:]), np.float32)
    else:
        maps = pixel_maps(view, look(view, observations, loop.state), view.network.shape[1:])
    order = pixel_order(maps, name, seed)
    return replaced(observations, order, share, filling, keep=condition.endswith("only"))
