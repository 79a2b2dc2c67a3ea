"""The report: one HTML file that opens offline, with its tables and figures beside it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment
from markupsafe import Markup

from reprl import __version__
from reprl.analysis import contents, measured
from reprl.analysis.ablation import ablation_table, settings_table
from reprl.analysis.charts import chart_data
from reprl.analysis.claims import claims_table, find_claims
from reprl.analysis.commands import commands
from reprl.analysis.gallery import Picture, pictures
from reprl.analysis.gap import main_labels, prepare, random_scores, run_scores
from reprl.analysis.lengths import length_note
from reprl.analysis.load import Results, collect
from reprl.analysis.palette import Style, styles
from reprl.analysis.plots import save_figures
from reprl.analysis.summary import against_plain, comparisons, headline, overall, verdict
from reprl.analysis.tables import Table, form
from reprl.disk import write_atomically
from reprl.envs.defaults import DEFAULT_GAME
from reprl.errors import UserError
from reprl.escaping import spreadsheet
from reprl.naming import is_baseline, is_plain
from reprl.runs.places import check_writable, expanded
from reprl.schema import CLEAN

TITLE = "Does it generalize, and where does it look?"
INTERVALS = (
    "over whole training runs: Student t where each seed played games of its own, two-way (run and "
    "game) where all runs shared them; 95 % from 5 seeds on, and one run has none."
)

PLOTS = {"retention": "Retention", "gap": "Gap", "score": "Score"}
FEW = 6  # commands shown before the rest is folded away


def write_report(
    folders: Iterable[Path | str], out: Path | str = "report", *, figures: bool = True
) -> tuple[Path, Results]:
    """Collect the folders and write report.html, tables/ and figures/ below `out`."""
    target = expanded(out)
    check_writable(target, "out")
    results = collect(folders)
    page, tables, data, looks = compose(results, str(out))
    try:
        (target / "tables").mkdir(parents=True, exist_ok=True)
        write_atomically(target / "report.html", page)
        shown = [t for t in tables.values() if len(t.frame)]
        for table in shown:
            write_atomically(target / "tables" / f"{table.name}.csv", table.csv())
            write_atomically(target / "tables" / f"{table.name}.md", table.markdown())
        if len(results.episodes):  # a matrix per method, as rliable and others read it
            matrix = run_scores(results.episodes).reset_index()
            write_atomically(target / "run_scores.csv", spreadsheet(matrix).to_csv(index=False))
        write_atomically(target / "tables.md", "\n".join(t.markdown() for t in shown))
        if figures:
            save_figures(data, looks, target / "figures")
    except OSError as error:
        raise UserError(f"out={out} cannot be written: {error.strerror}.") from error
    return target / "report.html", results


def compose(
    results: Results, out: str = "report"
) -> tuple[str, dict[str, Table], dict[str, Any], dict[str, Style]]:
    """The page, its tables, the plots' data and the methods' styles."""
    episodes = results.episodes
    evaluated = not episodes.empty
    methods = list(dict.fromkeys([*(r.method for r in results.runs), *_methods(episodes)]))
    looks = styles(sorted(methods, key=is_baseline))
    variants = _variants(episodes)
    summary = overall(episodes) if evaluated else pd.DataFrame()
    tables = _tables(results, summary, variants)
    declared = find_claims(results.folders, results.warnings)
    tables["claims"] = claims_table(results, declared)
    gallery = pictures(results.runs, results.warnings, Path(out))
    data = chart_data(results, looks, variants, tables["twin"], tables["attention"])
    calls = commands(results, out)
    script = _template("charts.js") + _template("page.js")
    environment = Environment(autoescape=True, trim_blocks=False)
    environment.globals["row_method"] = _row_method
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    context = {
        "title": TITLE,
        "subtitle": _subtitle(results, methods),
        "verdict": verdict(summary),
        "against_plain": _against_plain(results, tables),
        "claims": list(tables["claims"].frame["sentence"]),
        "length_note": length_note(results, summary.get("method", [])),
        "headlines": _headlines(results, summary, tables, looks),
        "warnings": results.warnings,
        "methods": list(looks),
        "tones": {m: s.index for m, s in looks.items()},
        "variants": variants,
        "clean": CLEAN,
        "chosen": _first_choice(variants, tables, _looked_at(tables, gallery)),
        "evaluated": evaluated,
        "plots": [(k, v) for k, v in PLOTS.items() if data["points"][k]],
        "opens": _first_plot(data["points"]),
        "curves": list(dict.fromkeys(s["curve"] for s in data["severity"])),
        "learning": bool(data["learning"]),
        "gallery": gallery,
        "metrics": list(dict.fromkeys(tables["attention"].frame.get("metric", []))),
        "tables": tables,
        "commands": calls[:FEW],
        "more_commands": calls[FEW:],
        "version": __version__,
        "date": datetime.now().strftime("%d %B %Y"),
        "intervals": INTERVALS,
        "data": data,
        "css": Markup(_template("report.css")),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    page = environment.from_string(_template("report.html")).render(context)
    return page, tables, data, looks


def _against_plain(results: Results, tables: dict[str, Table]) -> str:
    plain = {r.method for r in results.runs if is_plain(r.config)}
    compared = tables.get("comparisons")
    return against_plain(compared.frame, plain.pop()) if compared and len(plain) == 1 else ""


def _tables(results: Results, summary: pd.DataFrame, variants: list[str]) -> dict[str, Table]:
    episodes = results.episodes
    found = [
        measured.twin_table(results.twin),
        measured.attention_table(results.attention),
        measured.faithfulness_table(results.faithfulness),
        ablation_table(results),
        settings_table(results.runs),
    ]
    empty = pd.DataFrame()
    if episodes.empty:
        names = ("overall", "scores", "gap", "comparisons", "severity", "difficulty")
        found += [Table(name, "", [], empty) for name in names]
    else:
        ranked = summary[summary["ranked"].map(lambda r: r is not False)] if len(summary) else empty
        ranked = ranked.sort_values("order", ascending=False) if len(ranked) else ranked
        names_ = [str(m) for m in ranked.get("method", [])]
        found += [
            contents.overall_table(summary),
            contents.scores_table(episodes, variants),
            contents.gap_table(episodes),
            contents.comparison_table(comparisons(episodes, names_)),
            contents.area_table(episodes),
            contents.difficulty_table(results),
        ]
    muted = frozenset(m for m in _methods(episodes) if is_baseline(m))
    return {t.name: replace(t, marked=muted) for t in found}


def _headlines(
    results: Results, summary: pd.DataFrame, tables: dict[str, Table], looks: dict[str, Style]
) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    random = np.nan
    if not results.episodes.empty:
        random = random_scores(run_scores(results.episodes)).get(CLEAN, np.nan)
    ordered = summary.sort_values("order") if len(summary) else summary
    for _, row in ordered.iterrows():
        method = str(row["method"])
        bad = row["ranked"] is False
        big, unit = f"{row['clean']:.1f}", "points, clean"
        if bad:
            big, unit = "not ranked", ""
        elif np.isfinite(row["score"]):
            big, unit = form(row["score"], "score"), "points on the variants"
        text = headline(row, tables["gap"].frame, float(random))
        tone = looks[method].index
        out.append(
            {"method": method, "tone": tone, "big": big, "unit": unit, "text": text, "out": bad}
        )
    known = {h["method"] for h in out}
    for method in dict.fromkeys(r.method for r in results.runs if r.method not in known):
        text = "was trained but not evaluated yet."
        tone = looks[method].index
        out.append(
            {"method": method, "tone": tone, "big": "–", "unit": "", "text": text, "out": True}
        )
    return out


def _subtitle(results: Results, methods: list[str]) -> str:
    trained = [m for m in methods if not is_baseline(m)]
    games = sorted({r.game for r in results.runs}) or [DEFAULT_GAME]
    played = f", {results.games:,} games played" if results.games else ""
    runs, count = len(results.runs), len(trained)
    return (
        f"{count} method{'s' * (count != 1)}, {runs} training run{'s' * (runs != 1)} on "
        f"{', '.join(games)}{played}."
    )


def _first_plot(points: dict[str, list[dict[str, Any]]]) -> str:
    """The first plot with a trained method in it: the others begin switched off."""
    trained = {k: any(not is_baseline(p["method"]) for p in points[k]) for k in PLOTS}
    return next((k for k in PLOTS if trained[k]), "score")


def _looked_at(tables: dict[str, Table], gallery: list[Picture]) -> set[str]:
    """The variants the section on attention has anything of."""
    return {p.variant for p in gallery} | set(tables["attention"].frame["variant"])


def _first_choice(variants: list[str], tables: dict[str, Table], looked_at: set[str]) -> str:
    """Open with a variant that tells methods apart, if possible one with attention."""
    frame = tables["difficulty"].frame
    good = list(frame.loc[frame["label"] == "informative", "variant"]) if len(frame) else []
    shown = [v for v in variants if v != CLEAN]
    return max(shown, key=lambda v: (v in good, v in looked_at), default="*")


def _methods(episodes: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(episodes["method"])) if len(episodes) else []


def _variants(episodes: pd.DataFrame) -> list[str]:
    """Clean first, then in the order of evaluation; weaker severities have their own section."""
    if episodes.empty:
        return []
    names = main_labels(dict.fromkeys(map(str, prepare(episodes)["variant"])))
    return [v for v in names if v == CLEAN] + [v for v in names if v != CLEAN]


def _row_method(table: Table, index: int) -> str:
    return str(table.frame["method"].iloc[index]) if "method" in table.frame else ""


def _template(name: str) -> str:
    return (resources.files("reprl.analysis") / "templates" / name).read_text(encoding="utf-8")
