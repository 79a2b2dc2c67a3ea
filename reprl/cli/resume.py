"""`reprl resume DIR`: continue a run exactly where its newest checkpoint left it."""

from reprl.cli.arguments import TRUST, Key, parse
from reprl.distributed.environment import place, show_life
from reprl.settings import RANKS

HELP = "go on with an interrupted run, bit for bit"
KEYS = {
    "trust": TRUST,
    "ranks": Key(
        None,
        "go on with another number of processes than before: in new games, and told as a change",
        "int",
        allowed=RANKS,
    ),
}


def run(arguments: list[str]) -> int:
    folders, values = parse("resume", arguments, KEYS, "one")
    show_life()
    from reprl.runs.agents import require_own
    from reprl.runs.folder import open_run

    require_own(folders[0], "resume")
    folder = open_run(folders[0])  # a wrong folder is said before torch loads
    number: int | None = values["ranks"]
    if place() is None and (had := _ranks(folder.record(), folder.settings(), number)) > 1:
        from reprl.distributed.launch import supervise

        return supervise(["resume", *arguments], had)
    from reprl.runs.train import resume

    return resume(str(folders[0]), number)


def _ranks(record: dict[str, object], settings: dict[str, object], number: int | None) -> int:
    """How many ranks go on; a folder that says nonsense is refused when it is read whole."""
    found = number or record.get("ranks") or settings.get("ranks", 1)
    return found if isinstance(found, int) and RANKS.low <= found <= RANKS.high else 1
