"""Learning curves for docs/results.md: metrics.csv of the published runs -> docs/images/curves.png.

Left the declared comparison by imitation, right PPO, beside the run of stable-baselines3's zoo.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks import declared_page
from reprl.analysis.curves import banded, load_curve

RESULTS = Path(__file__).parent.parent / "results"
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "curves.png"
BY_PPO = {  # folders of results/ -> name in the figure, and line: one colour an input
    "methods/*_ppo-nature_original_*": ("plain", "C0-"),
    "methods/*_ppo-nature-drac-gray_boxes_*": ("DrAC", "C6-"),
    "ppo_background/background-s*": ("slow memory", "C1-"),
    "ppo_differences/differences-s*": ("differences", "C3-"),
    "ppo_long/plain-s*": ("plain, longer", "C0--"),
    "ppo_long/background-s*": ("slow memory, longer", "C1--"),
}
ZOO = {100_000: 3.2, 200_000: 8.6, 300_000: 11.2, 500_000: 14.7, 1_000_000: 25.7}  # its monitor
START = 20_480  # before it the expert steers, and no game is the agent's own


def figure() -> Figure:
    """Training scores over steps: every run of each method, and their mean."""
    picture = Figure(figsize=(9.6, 3.6), layout="constrained")
    left, right = picture.subplots(1, 2)
    for i, method in enumerate(declared_page.DECLARED):
        runs = [run for run in declared_page.results().runs if run.method == method]
        name = declared_page.METHODS[method]
        _draw(left, [run.metrics for run in runs], name, f"C{i}-", START)
    for pattern, (name, style) in BY_PPO.items():
        files = sorted(RESULTS.glob(f"{pattern}/metrics.csv"))
        _draw(right, [pd.read_csv(file) for file in files], name, style)
    end = max((line.get_xdata()[-1] for line in right.get_lines()), default=0)  # type: ignore[index]
    known = {step: score for step, score in ZOO.items() if step <= end}
    right.plot(list(known), list(known.values()), "kx", label="the zoo's PPO, one run")
    for axes, title in ((left, "by imitation"), (right, "by PPO")):
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("steps")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:,.0f}k")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    left.set_ylabel("points a game, while learning")
    return picture


def _draw(
    axes: Axes, runs: list[pd.DataFrame | None], name: str, style: str, start: int = 0
) -> None:
    curves = [curve for run in runs if run is not None and (curve := load_curve(run)) is not None]
    if not curves:
        return
    band = banded(curves)
    band = band[band["step"] >= start]
    label = f"{name} ({len(curves)})"
    (line,) = axes.plot(band["step"], band["score"], style, label=label, lw=1.5)
    for steps, scores in curves:
        kept = steps >= start
        axes.plot(steps[kept], scores[kept], color=line.get_color(), lw=0.5, alpha=0.4)
