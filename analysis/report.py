"""The report: one HTML file that opens offline, with its tables and figures beside it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment
from markupsafe import Markup, escape

from reprl import __version__, trust
from reprl.analysis import contents, measured, representation
from reprl.analysis.ablation import ablation_table, settings_table
from reprl.analysis.charts import chart_data, jsonable
from reprl.analysis.claims import claims_table, find_claims
from reprl.analysis.commands import commands
from reprl.analysis.curricula import curriculum_table
from reprl.analysis.definitions import PLOTS
from reprl.analysis.embedding.page import embedded_maps
from reprl.analysis.explorer.embed import embedded_films
from reprl.analysis.finding import (
    Finding,
    best_in_words,
    choose_baseline,
    finding,
    measured_how,
)
from reprl.analysis.gallery import EmbeddedPicture, pictures
from reprl.analysis.gap import Played, main_labels, played, prepare, random_scores, run_scores
from reprl.analysis.lengths import length_note
from reprl.analysis.load import Results, collect
from reprl.analysis.names import display_names, parse_names, renamed
from reprl.analysis.overview import matrix, overview, profiles, row_order, where_it_looks
from reprl.analysis.palette import Style, styles
from reprl.analysis.palette import css as colours
from reprl.analysis.plots import save_figures
from reprl.analysis.rating import rating_curves, rating_table
from reprl.analysis.several_games import games_table
from reprl.analysis.summary import against_plain, comparisons, headline, overall, verdict
from reprl.analysis.tables import Table, form
from reprl.analysis.thumbnails import thumbnails
from reprl.disk import not_written, write_atomically
from reprl.envs.games import game as game_of
from reprl.errors import UserError
from reprl.escaping import spreadsheet
from reprl.naming import is_baseline, is_plain
from reprl.runs.places import check_writable, expanded
from reprl.schema import CLEAN

INTERVALS = (
    "over whole training runs: Student t where each seed played games of its own, two-way (run and "
    "game) where all runs shared them; 95 % from 5 seeds on, and one run has none."
)

SEAMS = r"(?<=[_+\-/=.,])(?!\d)"  # where a name may break; a number may not
LONGEST = 18  # letters of a method's name that still fit above a column of the matrix
POINTS = ("retention", "gap", "score")
REPRESENTED = ("probes", "layers", "interventions", "breaking")
SCRIPTS = ("charts.js", "overview.js", "page.js", "explorer.js", "embedding.js")
KINDS = {
    "mask": "Masks: what the agent lets through",
    "saliency": "Saliency: what its policy depends on",
}


def write_report(
    folders: Iterable[Path | str],
    out: Path | str = "report",
    *,
    figures: bool = True,
    names: Sequence[str] = (),
    baseline: str | None = None,
) -> tuple[Path, Results]:
    """Collect the folders and write report.html, tables/ and figures/ below `out`.

    `names` are pairs METHOD:NAME; `baseline` is the method that others are held against.
    """
    target = expanded(out)
    check_writable(target, "out")
    given = parse_names(names)
    with trust.closed():  # tables name variants and games: none of them is imported here
        results = collect(folders)
        called = display_names(results.runs, given)
        page, tables, data, looks = compose(results, str(out), names=called, baseline=baseline)
    recorded = {name: method for method, name in called.items()}
    try:
        (target / "tables").mkdir(parents=True, exist_ok=True)
        write_atomically(target / "report.html", page)
        shown = [t for t in tables.values() if len(t.frame)]
        for table in shown:
            forms = {"csv": table.csv(recorded), "md": table.markdown(), "tex": table.latex()}
            for suffix, text in forms.items():
                write_atomically(target / "tables" / f"{table.name}.{suffix}", text)
        if len(results.episodes):  # a matrix per method, as rliable and others read it
            matrix_ = run_scores(results.episodes).reset_index()
            write_atomically(target / "run_scores.csv", spreadsheet(matrix_).to_csv(index=False))
        listed = pd.DataFrame({"method": list(called), "name": list(called.values())})
        write_atomically(target / "names.csv", spreadsheet(listed).to_csv(index=False))
        write_atomically(target / "tables.md", "\n".join(t.markdown() for t in shown))
        if figures:
            save_figures(data, looks, target / "figures")
    except OSError as error:
        raise not_written(f"out={out}", error) from error
    return target / "report.html", results


def compose(
    collected: Results,
    out: str = "report",
    *,
    names: Mapping[str, str] | None = None,
    baseline: str | None = None,
) -> tuple[str, dict[str, Table], dict[str, Any], dict[str, Style]]:
    """The page, its tables, the plots' data and the methods' styles."""
    called = dict(names) if names is not None else display_names(collected.runs)
    results = renamed(collected, called)
    recorded = {name: method for method, name in called.items()}
    episodes = results.episodes
    evaluated = not episodes.empty
    table = played(episodes) if evaluated else None
    summary = overall(episodes) if evaluated else pd.DataFrame()
    declared = find_claims(results.folders, results.warnings)
    base = choose_baseline(results, declared, baseline, recorded)
    found = finding(table, summary, base)
    methods = list(dict.fromkeys([*(r.method for r in results.runs), *_methods(episodes)]))
    order = row_order(summary, methods)
    plain = {run.method for run in results.runs if is_plain(run.config)}
    looks = styles(order, plain)
    variants = _variants(episodes)
    tables = _tables(results, summary, variants, found)
    tables["claims"] = claims_table(results, declared)
    gallery = pictures(results.runs, results.warnings, Path(out), order)
    data = chart_data(results, looks, variants, tables["twin"], tables["attention"])
    data["rating"] = jsonable(rating_curves(tables["rating"].frame))
    game = results.game
    data["taken"] = jsonable(representation.taken_away(results.probes, table, _tracked(game)))
    data["tracked"] = _tracked(game) or ""
    grid: dict[str, Any] = {"methods": [], "cells": []}
    if table is not None:
        grid = matrix(table, order)
        data["overview"] = jsonable(overview(table, found, order))
        data["profile"] = jsonable(profiles(table, order))
        data["matrix"] = grid["methods"]
        data["thumbnails"] = thumbnails(variants, game)
    calls = commands(results, out)
    films = embedded_films(results, order, table)
    maps = embedded_maps(results, order)
    css = (
        _template("report.css")
        + _template("overview.css")
        + _template("explorer.css")
        + _template("embedding.css")
    )
    css += f":root {{ {colours(False)} }}\n"
    css += f"@media (prefers-color-scheme: dark) {{ :root {{ {colours(True)} }} }}"
    script = "".join(map(_template, SCRIPTS))
    environment = Environment(autoescape=True, trim_blocks=False)
    environment.globals["row_method"] = _row_method
    environment.globals["row_methods"] = _row_methods
    environment.globals["breakable"] = _breakable
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    attended = [(k, w) for k, w in KINDS.items() if any(a["kind"] == k for a in data["attention"])]
    context = {
        "title": found.title,
        "best": _best(results, table, found, tables["attention"].frame),
        "how": measured_how(results),
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
        "matrix": grid,
        "numbered": any(len(m) > LONGEST for m in grid["methods"]),
        "kinds": attended,
        "explorer": films,
        "maps": maps,
        "explorer_html": Markup(_template("explorer.html")),  # noqa: S704  # our own file
        "plots": [(k, PLOTS[k]["title"]) for k in POINTS if data["points"][k]],
        "opens": _first_plot(data["points"]),
        "curves": list(dict.fromkeys(s["curve"] for s in data["severity"])),
        "learning": bool(data["learning"]["steps"]),
        "gallery": gallery,
        "represented": bool(maps) or any(len(tables[name].frame) for name in REPRESENTED),
        "represented_tables": [t for n in REPRESENTED if len((t := tables[n]).frame)],
        "metrics": list(dict.fromkeys(tables["attention"].frame.get("metric", []))),
        "tables": tables,
        "commands": calls,
        "version": __version__,
        "date": datetime.now().strftime("%d %B %Y"),
        "intervals": INTERVALS,
        "data": data,
        "css": Markup(css),  # noqa: S704  # our own files
        "script": Markup(script),  # noqa: S704  # our own files
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    context["contents"] = _contents(context)
    page = environment.from_string(_template("report.html")).render(context)
    return page, tables, data, looks


def _contents(context: dict[str, Any]) -> list[tuple[str, str]]:
    """The parts of this page, in its order: (anchor, words)."""
    tables: dict[str, Table] = context["tables"]

    def full(name: str) -> bool:
        return len(tables[name].frame) > 0

    looks = context["gallery"] or full("attention") or full("faithfulness")
    parts = {
        ("overview", "Score on every variant"): context["evaluated"],
        ("one", "Every seed, clean to variant"): context["evaluated"],
        ("severity", "Severity"): context["curves"],
        ("compare", "Method against method"): context["evaluated"],
        ("explorer", "Watch a game change"): context["explorer"],
        ("attention", "Where the agents look"): looks,
        ("representation", "What the features hold"): context["represented"],
        ("twin", tables["twin"].title): full("twin"),
        ("learning", PLOTS["learning"]["title"]): context["learning"],
        ("elo", PLOTS["rating"]["title"]): context["data"]["rating"],
        ("difficulty", tables["difficulty"].title): full("difficulty"),
        ("numbers", "All numbers"): True,
        ("runs", tables["ablation"].title): True,
        ("commands", "Do it again"): True,
    }
    return [part for part, there in parts.items() if there]


def _against_plain(results: Results, tables: dict[str, Table]) -> str:
    plain = {r.method for r in results.runs if is_plain(r.config)}
    compared = tables.get("comparisons")
    return against_plain(compared.frame, plain.pop()) if compared and len(plain) == 1 else ""


def _tables(
    results: Results, summary: pd.DataFrame, variants: list[str], found: Finding
) -> dict[str, Table]:
    episodes = results.episodes
    measured_attention = measured.attention_table(results.attention)
    made = [
        measured.twin_table(results.twin),
        measured_attention,
        measured.faithfulness_table(results.faithfulness),
        representation.probe_table(results.probes),
        representation.layers_table(results.layers),
        representation.interventions_table(results.interventions),
        representation.breaking_table(results.breaking),
        curriculum_table(results.runs),
        rating_table(episodes),
        games_table(results.several),
        ablation_table(results),
        settings_table(results.runs),
    ]
    empty = pd.DataFrame()
    if episodes.empty:
        names = ("overall", "scores", "gap", "comparisons", "severity", "difficulty")
        made += [Table(name, "", [], empty) for name in names]
    else:
        ranked = summary[summary["ranked"].map(lambda r: r is not False)] if len(summary) else empty
        ranked = ranked.sort_values("order", ascending=False) if len(ranked) else ranked
        names_ = [str(m) for m in ranked.get("method", [])]
        made += [
            contents.overall_table(summary, found, _looks(results, measured_attention.frame)),
            contents.scores_table(episodes, variants),
            contents.gap_table(episodes),
            contents.comparison_table(comparisons(episodes, names_)),
            contents.area_table(episodes),
            contents.difficulty_table(results),
        ]
    muted = frozenset(m for m in _methods(episodes) if is_baseline(m))
    return {t.name: replace(t, marked=muted) for t in made}


def _looks(results: Results, attention: pd.DataFrame) -> dict[str, dict[str, str]]:
    return where_it_looks(attention, _tracked(results.game))


def _tracked(game: str) -> str | None:
    """The object that agents of a game should follow, where the game is known here."""
    try:
        return game_of(game).tracked
    except UserError:  # a game of the user's own that is not here
        return None


def _best(results: Results, table: Played | None, found: Finding, attention: pd.DataFrame) -> str:
    seen = _looks(results, attention).get(found.best or "", {})
    return best_in_words(table, found.best, seen, _tracked(results.game))


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


def _first_plot(points: dict[str, list[dict[str, Any]]]) -> str:
    """The first plot with a trained method in it: the others begin switched off."""
    trained = {k: any(not is_baseline(p["method"]) for p in points[k]) for k in POINTS}
    return next((k for k in POINTS if trained[k]), "score")


def _looked_at(tables: dict[str, Table], gallery: list[EmbeddedPicture]) -> set[str]:
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


def _row_methods(table: Table, index: int) -> list[str]:
    """All methods a row speaks of: it is hidden with any of them."""
    row = table.frame.iloc[index]
    return [str(row[c]) for c in ("method", "against") if c in table.frame]


def _breakable(text: str) -> Markup:
    """Escaped text that may break behind its signs, not in the middle of a word."""
    return Markup("<wbr>").join(escape(part) for part in re.split(SEAMS, text))


def _template(name: str) -> str:
    return (resources.files("reprl.analysis") / "templates" / name).read_text(encoding="utf-8")
