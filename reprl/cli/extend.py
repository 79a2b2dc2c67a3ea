"""`reprl extend DIR total_steps=N`: train a run further, in its own folder, finished or not."""

from reprl.cli.arguments import TRUST, Key, parse
from reprl.errors import UserError
from reprl.validation import Number

HELP = "train a run further, in its own folder, to a new total_steps"
KEYS = {
    "total_steps": Key(
        None, "where it ends now, in steps", "int", allowed=Number(1, 10**12, whole=True)
    ),
    "trust": TRUST,
}


def run(arguments: list[str]) -> int:
    (place,), values = parse("extend", arguments, KEYS, "one")
    if values["total_steps"] is None:
        raise UserError("reprl extend needs total_steps=N, where the run is to end.")
    from reprl.runs.agents import require_own
    from reprl.runs.extend import extend
    from reprl.runs.folder import open_run

    require_own(place, "extend")
    folder = open_run(place)  # a wrong folder is said before torch loads
    extend(folder, values["total_steps"])
    from reprl.runs.train import resume

    return resume(str(place))
