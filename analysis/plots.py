"""The report's plots as files: SVG and PDF for papers, drawn from the same data as the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from reprl.analysis.definitions import PLOTS
from reprl.analysis.palette import Style
from reprl.disk import replacing
from reprl.naming import file_name

DASHES = ("-", "--", ":", "-.")
# Text stays text, and the same data gives the same bytes.
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "reprl",
    "pdf.fonttype": 42,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e6e8",
    "axes.axisbelow": True,
    "text.parse_math": False,  # a method may have a dollar sign in its name
}
DATES = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # of the kinds that have one


def save_figures(data: dict[str, Any], styles: dict[str, Style], folder: Path) -> list[Path]:
    """Write every plot the data allows as SVG and PDF; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(SETTINGS):
        for name, figure in _figures(data, styles):
            for suffix in ("svg", "pdf"):
                path = folder / f"{name}.{suffix}"
                _save(figure, path)
                written.append(path)
    return written


def save_figure(draw: Callable[[], Figure], path: Path) -> None:
    """Draw one figure in the report's style and write it as its file's ending says."""
    with matplotlib.rc_context(SETTINGS):
        _save(draw(), path, dpi=150)


def _save(figure: Figure, path: Path, **settings: Any) -> None:
    """Write a figure whole, without its date, as the kind that the file's ending says."""
    kind = path.suffix[1:].lower()
    with replacing(path) as draft:
        figure.savefig(
            draft, bbox_inches="tight", format=kind, metadata=DATES.get(kind), **settings
        )


def _figures(data: dict[str, Any], styles: dict[str, Style]) -> Iterator[tuple[str, Figure]]:
    trained = {m["name"] for m in data["methods"] if not m["baseline"]}
    if data.get("overview") and any(m in trained for m in data["overview"]["order"]):
        yield "overview", overview_figure(data, styles)
    for name in ("retention", "gap", "score"):
        items = [p for p in data["points"][name] if p["method"] in trained]
        if items:
            yield name, dot_figure(items, data["variants"], styles, PLOTS[name]["x"])
    if any(row[m][0] is not None for row in data["twin"] for m in data["measures"]):
        yield "twin", twin_figure(data, styles)
    for curve in dict.fromkeys(s["curve"] for s in data["severity"]):
        series = [s for s in data["severity"] if s["curve"] == curve and s["method"] in trained]
        if series:
            axes = (f"{curve}: {PLOTS['severity']['x']}", PLOTS["severity"]["y"])
            yield f"severity_{_file(curve)}", line_figure(series, styles, *axes)
    if data.get("taken"):
        yield "taken_away", taken_figure(data, styles)
    if data.get("profile"):
        words = PLOTS["profile"]
        yield "profile", line_figure(data["profile"], styles, words["x"], words["y"], stepped=True)
    for over, series in data["learning"].items():
        if series:
            words = PLOTS["learning"]
            name = "learning" if over == "steps" else f"learning_{over}"
            yield name, line_figure(series, styles, words["x"][over], words["y"])
    if data.get("rating"):
        yield "rating", rating_figure(data["rating"], styles)


def rating_figure(curves: list[dict[str, Any]], styles: dict[str, Style]) -> Figure:
    """Elo with its interval against the step, one line a run."""
    words = PLOTS["rating"]
    return line_figure(curves, styles, words["x"], words["y"], marked=True)


def overview_figure(data: dict[str, Any], styles: dict[str, Style]) -> Figure:
    """The page's first plot: variants as columns, methods as rows, differences on the right."""
    spec, words = data["overview"], PLOTS["overview"]
    trained = {m["name"] for m in data["methods"] if not m["baseline"]}
    rows = [m for m in spec["order"] if m in trained]
    columns, gaps = data["variants"], spec["difference"]
    panels = len(columns) + bool(gaps)
    figure = Figure(figsize=(1.6 + 1.35 * panels, 1.1 + 0.3 * len(rows)))
    grid = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
    points = {(p["method"], p["variant"]): p for p in data["points"]["score"]}
    highest = 0.0
    for axes, variant in zip(grid, columns, strict=False):
        if variant in data["random"]:
            axes.axvline(data["random"][variant], color="#555", ls="--", lw=0.8)
        for y, method in enumerate(rows):
            runs = [s["scores"].get(variant) for s in data["seeds"] if s["method"] == method]
            known = [r for r in runs if r is not None]
            _row(axes, y, points.get((method, variant)), styles[method].light)
            axes.plot(known, [y] * len(known), "o", color=styles[method].light, ms=3.5, mew=0)
            highest = max([highest, *known])
        axes.set_title(_text(variant), fontsize=8)
    for axes in grid[: len(columns)]:
        axes.set_xlim(min(0, axes.get_xlim()[0]) if spec["lowest"] is None else 0, highest * 1.08)
    if gaps:
        axes = grid[-1]
        axes.axvline(0, color="#222", lw=0.8)
        for y, method in enumerate(rows):
            _row(axes, y, gaps.get(method), styles[method].light)
        axes.set_title(words["against"].format(baseline=spec["baseline"]), fontsize=8)
        axes.set_xlabel(words["difference"], fontsize=8)
    grid[0].set_yticks(range(len(rows)), [_text(m) for m in rows])
    grid[0].set_ylim(len(rows) - 0.5, -0.5)
    grid[0].set_xlabel(words["x"], fontsize=8)
    return figure


def _row(axes: Any, y: int, item: dict[str, Any] | None, colour: str) -> None:
    """A mean as a tick and its interval as a band."""
    if item is None:
        return
    if item["low"] is not None and item["high"] is not None:
        wide = item["high"] - item["low"]
        axes.barh(y, wide, left=item["low"], height=0.4, color=colour, alpha=0.25, lw=0)
    axes.plot([item["value"]] * 2, [y - 0.33, y + 0.33], color=colour, lw=1.6)


def dot_figure(
    items: list[dict[str, Any]], variants: list[str], styles: dict[str, Style], label: str
) -> Figure:
    """Variants as rows, one dot with its interval per method."""
    rows, methods = _present(items, variants, styles)
    figure = Figure(figsize=(6.3, 0.8 + len(rows) * (0.22 + 0.16 * len(methods))))
    axes = figure.subplots()
    _dots(axes, items, rows, methods, styles)
    axes.set_xlabel(label)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    return figure


def taken_figure(data: dict[str, Any], styles: dict[str, Style]) -> Figure:
    """What the variant takes away: score kept against object still readable, a dot a run."""
    words, thing = PLOTS["taken"], data["tracked"]
    figure = Figure(figsize=(5.2, 4.2))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="#999", ls="--", lw=0.8)
    for method in dict.fromkeys(point["method"] for point in data["taken"]):
        own = [point for point in data["taken"] if point["method"] == method]
        style = styles[method]
        x, y = ([min(max(p[k], -0.25), 1.5) for p in own] for k in ("kept", "readable"))
        axes.plot(x, y, style.marker, color=style.light, ms=5, label=_text(method), ls="none")
        for point, px, py in zip(own, x, y, strict=True):
            place: dict[str, Any] = {"xytext": (4, 3), "textcoords": "offset points", "fontsize": 6}
            axes.annotate(_text(point["variant"]), (px, py), color="#555", **place)
    axes.set_xlabel(words["x"])
    axes.set_ylabel(words["y"].format(object=thing))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    return figure


def twin_figure(data: dict[str, Any], styles: dict[str, Style]) -> Figure:
    """All measures of the twin evaluation side by side."""
    rows, methods = _present(data["twin"], data["twin_variants"], styles)
    measures = [m for m in data["measures"] if any(t[m][0] is not None for t in data["twin"])]
    height = 0.8 + len(rows) * (0.22 + 0.16 * len(methods))
    figure = Figure(figsize=(2.2 * len(measures), height))
    panels = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
    for axes, measure in zip(panels, measures, strict=True):
        items = [
            dict(zip(("value", "low", "high"), row[measure], strict=True))
            | {"method": row["method"], "variant": row["variant"]}
            for row in data["twin"]
        ]
        _dots(axes, items, rows, methods, styles)
        axes.set_xlabel(PLOTS["twin"]["x"][measure], fontsize=8)
    panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    return figure


def _present(
    items: list[dict[str, Any]], variants: list[str], styles: dict[str, Style]
) -> tuple[list[str], list[str]]:
    rows = [v for v in variants if any(i["variant"] == v for i in items)]
    return rows, [m for m in styles if any(i["method"] == m for i in items)]


def _dots(
    axes: Any,
    items: list[dict[str, Any]],
    rows: list[str],
    methods: list[str],
    styles: dict[str, Style],
) -> None:
    for m, method in enumerate(methods):
        style = styles[method]
        shift = (m - (len(methods) - 1) / 2) * 0.7 / len(methods)
        own = [i for i in items if i["method"] == method and i["value"] is not None]
        own = [i for i in own if i["variant"] in rows]
        y = [rows.index(i["variant"]) + shift for i in own]
        ends = [(i["low"], i["high"], at) for i, at in zip(own, y, strict=True)]
        lines = [e for e in ends if e[0] is not None and e[1] is not None]
        low, high, at = zip(*lines, strict=True) if lines else ((), (), ())
        axes.hlines(at, low, high, color=style.light, alpha=0.5, lw=1.5)
        x = [i["value"] for i in own]
        axes.plot(x, y, style.marker, color=style.light, ms=5, label=_text(method))
    axes.set_yticks(range(len(rows)), [_text(r) for r in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)


def line_figure(
    series: list[dict[str, Any]],
    styles: dict[str, Style],
    x_label: str,
    y_label: str,
    *,
    stepped: bool = False,
    marked: bool = False,
) -> Figure:
    """Mean lines with their bands and thin lines of the seeds; `stepped` ones have neither.

    `marked` ones show each point, for lines of few; of one method each has dashes of its own.
    """
    figure = Figure(figsize=(6.3, 3.4))
    axes = figure.subplots()
    for one in series:
        style = styles[one["method"]]
        colour, name = style.light, _text(one.get("name", one["method"]))
        points = np.array(one["points"], float)  # (T, 5): x, mean, low, high, seeds; stepped (T, 2)
        if stepped:
            axes.step(points[:, 0], points[:, 1], where="post", color=colour, label=name)
            continue
        dots: dict[str, Any] = {}
        if marked:
            same = [other for other in series if other["method"] == one["method"]]
            dots = {"marker": style.marker, "ms": 4, "ls": DASHES[same.index(one) % len(DASHES)]}
        axes.plot(points[:, 0], points[:, 1], color=colour, label=name, **dots)
        axes.fill_between(points[:, 0], points[:, 2], points[:, 3], color=colour, alpha=0.12)
        for seed in one.get("seeds", []):
            axes.plot(*np.array(seed["points"], float).T, color=colour, lw=0.5, alpha=0.5)
    axes.set_xlabel(_text(x_label))
    axes.set_ylabel(y_label)
    axes.legend(frameon=False)
    return figure


def _text(name: str) -> str:
    """matplotlib leaves out legend entries that begin with an underscore."""
    return f" {name}" if name.startswith("_") else name


def _file(name: str) -> str:
    return file_name(name, other="_", keep="-_", longest=60)
