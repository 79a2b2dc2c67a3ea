"""The mathematics of probes: ridge and logistic regression in a layer's own axes, and their scores.

activations -> Gram matrix -> **axes -> weights for all labels at once** -> R2, error, balanced
accuracy. A layer has more units than there are frames, so everything is solved in the space of
the frames, which gives the same weights as the space of the units would.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PENALTIES = tuple(10.0**k for k in range(-7, 2))  # of ridge, as shares of the layer's variance
ROUNDS = 300  # of logistic regression, at most
SETTLED = 1e-5  # largest change of a weight, as a share of the largest weight, that ends it


class Axes:
    """The principal axes of n frames, from the products of their activations: (n, n) float64."""

    def __init__(self, products: np.ndarray, *, smallest: float = 1e-10) -> None:
        self.columns = products.mean(axis=0)  # (n,)
        self.mean = float(products.mean())
        centred = products - self.columns[None, :] - self.columns[:, None] + self.mean
        values, vectors = np.linalg.eigh(centred)
        kept = values > max(smallest * float(values[-1]), 1e-300)
        self.values: np.ndarray = values[kept]  # (r,) sums of squares along each axis
        self.vectors: np.ndarray = vectors[:, kept]  # (n, r)

    @property
    def variance(self) -> float:
        """The sum of squares of all activations around their means."""
        return float(self.values.sum())

    @property
    def fitted(self) -> np.ndarray:
        """The frames' own coordinates (n, r)."""
        return self.vectors * np.sqrt(self.values)

    def coordinates(self, products: np.ndarray) -> np.ndarray:
        """Coordinates (m, r) of other frames, from their products with these: (m, n)."""
        centred = products - products.mean(axis=1, keepdims=True) - self.columns + self.mean
        found: np.ndarray = centred @ (self.vectors / np.sqrt(self.values))
        return found


def ridge(axes: Axes, labels: np.ndarray, penalties: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (r, L) and offsets (L,) of labels (n, L), each label with its own penalty (L,).

    Penalties are shares of the layer's variance, so that they mean the same in every layer.
    """
    offsets = labels.mean(axis=0)
    along = axes.vectors.T @ (labels - offsets)  # (r, L)
    size = np.sqrt(axes.values)[:, None]
    return size * along / (axes.values[:, None] + penalties * axes.variance), offsets


def logistic(
    axes: Axes, labels: np.ndarray, penalties: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (r, L) and offsets (L,) for yes/no labels (n, L), both answers of equal weight.

    The curvature of the loss is nowhere above a quarter of the squared coordinates, which in these
    axes is a diagonal: each round solves that bound exactly, with Nesterov's momentum. A penalty
    counts a quarter of ridge's, so that at the start both shrink alike.
    """
    n, r = axes.vectors.shape
    signs = np.where(labels > 0, 1.0, -1.0)  # (n, L)
    share = (signs > 0).mean(axis=0)
    counts = np.where(signs > 0, 0.5 / share, 0.5 / (1 - share))  # (n, L), mean 1
    strength = penalties * axes.variance / 4
    inputs = np.hstack([axes.fitted, np.ones((n, 1))])  # the axes are centred: 1 is one more axis
    curvature = np.append(axes.values, n)[:, None] * counts.max(axis=0) / 4  # (r + 1, L)
    shrink = np.vstack([np.tile(strength, (r, 1)), np.zeros((1, signs.shape[1]))])
    weights = ahead = np.zeros((r + 1, signs.shape[1]))
    momentum = 1.0
    for _ in range(ROUNDS):
        pull = counts * signs / (1 + np.exp(np.clip(signs * (inputs @ ahead), -500, 500)))
        new = ahead + (inputs.T @ pull - shrink * ahead) / (curvature + shrink)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        change = new - weights
        ahead = new + (momentum - 1) / following * change
        weights, momentum = new, following
        if np.abs(change).max() <= SETTLED * np.abs(new).max():
            break
    return weights[:-1], weights[-1]


def chosen_penalties(products: np.ndarray, labels: np.ndarray, games: np.ndarray) -> np.ndarray:
    """For each label (n, L) the penalty (L,) that reads it best in games it was not fitted on."""
    kinds = np.unique(games)
    judged = np.isin(games, kinds[: max(1, len(kinds) // 4)])
    axes = Axes(products[np.ix_(~judged, ~judged)])
    seen = axes.coordinates(products[np.ix_(judged, ~judged)])
    errors = []
    for penalty in PENALTIES:
        weights, offsets = ridge(axes, labels[~judged], np.full(labels.shape[1], penalty))
        errors.append(((seen @ weights + offsets - labels[judged]) ** 2).mean(axis=0))
    return np.array(PENALTIES)[np.argmin(errors, axis=0)]


@dataclass(frozen=True)
class Readout:
    """Fitted probes of one layer: numbers by ridge, yes/no labels by logistic regression."""

    axes: Axes
    weights: np.ndarray  # (r, L)
    offsets: np.ndarray  # (L,)

    @classmethod
    def fit(
        cls, products: np.ndarray, labels: np.ndarray, yes_no: np.ndarray, games: np.ndarray
    ) -> Readout:
        """From products (n, n), labels (n, L), which of them are yes/no (L,), and games (n,)."""
        targets = np.where(yes_no, 2 * labels - 1, labels).astype(np.float64)
        penalties = chosen_penalties(products, targets, games)
        axes = Axes(products)
        weights, offsets = ridge(axes, targets, penalties)
        if yes_no.any():
            found = logistic(axes, labels[:, yes_no], penalties[yes_no])
            weights[:, yes_no], offsets[yes_no] = found
        return cls(axes, weights, offsets)

    def read(self, products: np.ndarray) -> np.ndarray:
        """What is read (m, L) of frames from their products with the fitted ones (m, n).

        Numbers as they are; of a yes/no label the log-odds, yes above 0.
        """
        found: np.ndarray = self.axes.coordinates(products) @ self.weights + self.offsets
        return found


def r2(read: np.ndarray, truth: np.ndarray) -> float:
    """The share of the truth's variance (m,) that is read: 1 all, 0 as good as its mean."""
    return 1 - float(((read - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())


def correlation(read: np.ndarray, truth: np.ndarray) -> float:
    """Pearson's, blind to an offset and a scale; 0 where what is read never changes."""
    a, b = read - read.mean(), truth - truth.mean()
    size = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / size if size > 0 else 0.0


def balanced_accuracy(read: np.ndarray, truth: np.ndarray) -> float:
    """The mean of the shares of yes and of no that are read rightly; 0.5 is chance."""
    yes = truth > 0
    return float(((read[yes] > 0).mean() + (read[~yes] <= 0).mean()) / 2)
