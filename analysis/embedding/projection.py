"""Two dimensions out of many: principal components, and t-SNE of them.

features (n, units) -> **points (n, 2)**. PCA is linear and keeps distances where it can; t-SNE
(van der Maaten and Hinton 2008, exact) keeps neighbourhoods and nothing else.
"""

from __future__ import annotations

import numpy as np

from reprl.errors import UserError

METHODS = ("pca", "tsne", "umap")
EXAGGERATED = 12.0  # as long as clusters form
KEPT = 50  # principal components that t-SNE and UMAP begin from


def projected(
    features: np.ndarray, method: str, *, seed: int = 0, perplexity: float = 30.0
) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, 2) and, of PCA, the shares (2,) of the variance along each axis, else NaN."""
    components, shares = pca(features, min(KEPT, len(features) - 1))
    unknown = np.full(2, np.nan)
    if method == "pca":
        return _two(components), _two(shares[None])[0]
    if method == "tsne":
        return tsne(components, perplexity=perplexity), unknown
    try:
        import umap
    except ImportError:
        raise UserError(
            "method=umap needs the package umap-learn, which is not installed: "
            "pip install umap-learn, or use method=pca or tsne."
        ) from None
    neighbours = min(15, len(components) - 1)
    made = umap.UMAP(n_neighbors=neighbours, random_state=seed, n_jobs=1)
    return np.asarray(made.fit_transform(components), float), unknown


def pca(features: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first coordinates (n, k) along the principal axes, and their shares of the variance.

    An axis points to where its largest coordinate is positive, so that the map is the same map
    again. Axes along which nothing varies are left out.
    """
    centred = features.astype(np.float64) - features.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    total = float((sizes**2).sum())
    if total <= 0:
        return np.zeros((len(features), 1)), np.zeros(1)
    kept = sizes > 1e-9 * sizes[0]
    points = (left * sizes)[:, kept][:, :count]
    signs = np.sign(points[np.abs(points).argmax(axis=0), np.arange(points.shape[1])])
    return points * signs, (sizes[kept] ** 2 / total)[:count]


def tsne(points: np.ndarray, *, perplexity: float = 30.0, rounds: int = 400) -> np.ndarray:
    """Exact t-SNE of (n, d) from a PCA start, so that nothing is random; (n, 2)."""
    n = len(points)
    if n < 4:
        return _two(points)
    p = affinities(points, min(perplexity, (n - 1) / 3))
    y = _two(points)
    y = 1e-4 * y / max(float(y[:, 0].std()), 1e-12)
    step, gains, rate = np.zeros_like(y), np.ones_like(y), max(n / EXAGGERATED / 2, 4.0)
    for turn in range(rounds):
        early = turn < rounds // 4
        gradient = _gradient(p * EXAGGERATED if early else p, y)
        same = np.sign(gradient) == np.sign(step)
        gains = np.maximum(np.where(same, gains * 0.8, gains + 0.2), 0.01)
        step = (0.5 if early else 0.8) * step - rate * gains * gradient
        y = y + step
        y -= y.mean(axis=0)
    return y


def affinities(points: np.ndarray, perplexity: float) -> np.ndarray:
    """Symmetric probabilities (n, n) whose rows see `perplexity` neighbours each; sum 1."""
    squared = _squared_distances(points)
    n, wanted = len(points), np.log(perplexity)
    others = ~np.eye(n, dtype=bool)
    distances = squared[others].reshape(n, n - 1)
    distances = distances - distances.min(axis=1, keepdims=True)
    low, high = np.zeros(n), np.full(n, np.inf)
    precision = 1 / np.maximum(distances.mean(axis=1), 1e-12)
    for _ in range(64):
        weights = np.exp(-distances * precision[:, None])
        total = weights.sum(axis=1)
        entropy = np.log(total) + precision * (weights * distances).sum(axis=1) / total
        wide = entropy > wanted
        low, high = np.where(wide, precision, low), np.where(wide, high, precision)
        open_ = np.isinf(high)
        precision = np.where(open_, precision * 2, (low + np.where(open_, 0.0, high)) / 2)
    weights = np.exp(-distances * precision[:, None])
    p = np.zeros((n, n))
    p[others] = (weights / weights.sum(axis=1, keepdims=True)).ravel()
    return (p + p.T) / (2 * n)


def _gradient(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    near = 1 / (1 + _squared_distances(y))
    np.fill_diagonal(near, 0.0)
    force = (p - near / near.sum()) * near
    found: np.ndarray = 4 * (force.sum(axis=1)[:, None] * y - force @ y)
    return found


def _squared_distances(points: np.ndarray) -> np.ndarray:
    size = (points**2).sum(axis=1)
    return np.maximum(size[:, None] + size - 2 * points @ points.T, 0.0)


def _two(points: np.ndarray) -> np.ndarray:
    """The first two columns; zeros where there is only one."""
    return np.hstack([points, np.zeros((len(points), 2))])[:, :2]


def nearest(features: np.ndarray, among: np.ndarray, count: int, apart: np.ndarray) -> np.ndarray:
    """The rows (n, k) of `among` that are nearest to each of `features`.

    `apart` (n, m) is True for pairs that may not be neighbours: a moment and itself, or two
    moments of one game, which look alike because they follow one another.
    """
    a, b = features.astype(np.float64), among.astype(np.float64)
    distance = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    distance = np.where(apart, np.inf, distance)
    count = min(count, distance.shape[1])
    return np.argsort(distance, axis=1, kind="stable")[:, :count]
