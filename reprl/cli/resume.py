"""`reprl resume DIR`: continue a run exactly where its newest checkpoint left it."""

from reprl.cli.arguments import TRUST, parse

HELP = "go on with an interrupted run, bit for bit"
KEYS = {"trust": TRUST}


def run(arguments: list[str]) -> int:
    folders, _ = parse("resume", arguments, KEYS, "one")
    from reprl.runs.folder import open_run

    open_run(folders[0])  # a wrong folder is said before torch loads
    from reprl.runs.train import resume

    return resume(str(folders[0]))
