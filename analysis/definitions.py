"""What every plot is called and what its axes mean, once: the page and the figure files read it."""

from __future__ import annotations

from typing import Any

from reprl.analysis.tidy import MEASURES

POINTS = "points a game"
LINES = {  # reference lines: where, and the word beside them
    "retention": [{"at": 0, "text": "random play"}, {"at": 1, "text": "nothing lost"}],
    "gap": [{"at": 0, "text": "nothing lost"}],
    "score": [],
}
PLOTS: dict[str, dict[str, Any]] = {
    "overview": {
        "title": "Score on every variant",
        "x": f"score ({POINTS})",
        "difference": "difference (points)",
        "against": "minus {baseline}",
        "mean": "mean of the {count} variants",
        "one": "on {variant}",
    },
    "score": {"title": "Score", "x": f"score: {POINTS}", "kind": "score", "lines": LINES["score"]},
    "gap": {
        "title": "Gap",
        "x": "gap: points lost against the clean game",
        "kind": "score",
        "lines": LINES["gap"],
    },
    "retention": {
        "title": "Retention",
        "x": "retention: share of what was learned that survives",
        "kind": "share",
        "lines": LINES["retention"],
        "missing": "Retention is unknown where random play was not measured, and where a method is "
        "less than one point above it.",
    },
    "slopes": {
        "title": "Every seed from the clean game to the variant",
        "y": f"score ({POINTS})",
        "random": "random play",
    },
    "severity": {
        "title": "Score against severity",
        "x": "severity (0 = clean game)",
        "y": f"score ({POINTS})",
    },
    "learning": {
        "title": "Learning curves",
        "x": {"steps": "training steps", "hours": "hours of training"},
        "y": f"training score ({POINTS})",
    },
    "rating": {
        "title": "Elo over training",
        "x": "training steps",
        "y": "Elo (400 points are ten wins to one)",
    },
    "profile": {
        "title": "Performance profiles",
        "x": f"score ({POINTS})",
        "y": "share of runs and variants above it",
    },
    "twin": {
        "title": "Twin evaluation",
        "x": MEASURES,
        "lines": [{"at": 0, "text": "no change"}],
    },
    "taken": {
        "title": "What the variant takes away",
        "x": "score kept (share of what was learned)",
        "y": "{object} still readable (share of clean R²)",
        "corners": {
            "kept": "kept and read",
            "unused": "read, not used",
            "lost": "{object} lost, score lost",
        },
    },
    "attention": {
        "title": "Attention against the truth",
        "x": {
            "energy": "energy, as a multiple of chance",
            "pointing": "pointing, as a multiple of chance",
            "auc": "area under the ROC curve",
            "lag": "lag: agent steps by which attention is behind the object",
        },
        "ratios": ["energy", "pointing"],
        "lines": {
            "energy": [{"at": 0, "text": "chance"}],
            "pointing": [{"at": 0, "text": "chance"}],
            "auc": [{"at": 0.5, "text": "chance"}],
            "lag": [{"at": 0, "text": "none"}],
        },
    },
}
