"""`reprl report DIR...`: everything measured on some runs as one offline HTML file."""

from __future__ import annotations

from pathlib import Path

from reprl.cli.arguments import WANDB, Key, parse
from reprl.errors import UserError
from reprl.escaping import shown

HELP = "one offline HTML file with CSV and Markdown tables about runs and sweeps"
KEYS = {
    "out": Key(Path("report"), "folder for report.html, tables/ and figures/", "path"),
    "figures": Key(True, "also draw the plots as SVG and PDF files", "bool"),
    "names": Key(None, "what methods are called: METHOD:NAME, with commas between several", "list"),
    "baseline": Key(None, "the method others are held against (by default the plain agent)"),
    "wandb": WANDB,
}


def run(arguments: list[str]) -> int:
    """Write the report and say where it is and what it could not use."""
    named, values = parse("report", arguments, KEYS, "many", archives=True)
    folders = [_measured(place) for place in named]
    from reprl.analysis.report import write_report
    from reprl.runs.logbook import check_wandb

    check_wandb(values["wandb"])
    path, results = write_report(
        folders,
        values["out"],
        figures=values["figures"],
        names=values["names"] or (),
        baseline=values["baseline"],
    )
    if values["wandb"] != "off":
        _log(folders, path.parent, values["wandb"])
    for warning in results.warnings:
        print(f"note: {shown(warning)}")
    size = path.stat().st_size / 1e6
    print(f"{len(results.runs)} runs, {results.games} games -> {shown(path)} ({size:.1f} MB)")
    return 0


def _measured(place: Path) -> Path:
    """The folder of what was measured: of a model of Stable-Baselines3 the one beside it."""
    if not place.is_file():
        return place
    folder = place.with_suffix("")
    if not folder.is_dir():
        raise UserError(
            f"{place} has not been measured: `reprl evaluate {place} trust=true` comes first."
        )
    return folder


def _log(folders: list[Path], report: Path, wandb: str) -> None:
    """The report, its tables and figures as an artifact of every run that is in it."""
    from reprl.runs.folder import open_run, runs_in
    from reprl.runs.logbook import log_results
    from reprl.runs.media import LoggedFiles

    files = LoggedFiles(report, "report", (".html", ".csv", ".md", ".svg", ".png"))
    for folder in folders:
        one = (folder / "run.json").is_file()
        for run_folder in [open_run(folder)] if one else runs_in(folder):
            step = int(run_folder.record().get("step") or 0)
            log_results(run_folder, step, {}, {"report": files}, wandb=wandb, kind="report")
