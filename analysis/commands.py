"""The commands that make the same runs, games and report again."""

from __future__ import annotations

import shlex

from reprl.analysis.gap import prepare
from reprl.analysis.naming import is_baseline
from reprl.analysis.results import Results
from reprl.analysis.tidy import protocols


def commands(results: Results, variants: list[str], out: str) -> list[str]:
    """Report first, then evaluation, then every distinct training command as it was recorded."""
    folders = " ".join(shlex.quote(str(f)) for f in results.folders)
    target = "" if out == "report" else f" {shlex.quote(f'out={out}')}"
    lines = [f"reprl report {folders}{target}"]
    if not results.episodes.empty:
        games = prepare(results.episodes)
        games = games[~games["method"].map(is_baseline)]
        if len(games):
            count = int(games.groupby(["run", "variant"]).size().max())
            names = ",".join(v for v in dict.fromkeys(games["variant"]))
            greedy, sticky = protocols(games).iloc[0]  # all have the same
            how = f"{' deterministic=true' * greedy}{f' sticky={sticky:g}' if sticky else ''}"
            for folder in results.folders:
                place = shlex.quote(str(folder))
                lines.append(
                    f"reprl evaluate {place} variants={shlex.quote(names)} episodes={count}{how}"
                )
    trained = [_text(r.record.get("command")) for r in results.runs]
    return lines + list(dict.fromkeys(c for c in trained if c))


def _text(command: object) -> str:
    if isinstance(command, list):
        return shlex.join(str(c) for c in command)
    return str(command) if command else ""
