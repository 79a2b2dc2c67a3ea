"""`reprl doctor`: what this machine gives a training run, and what is slow here and why."""

from reprl.cli.arguments import Key, parse
from reprl.validation import Number

HELP = "measure this machine in about a minute: what to set, what is slow and why"
KEYS = {
    "seconds": Key(4.0, "seconds for each of five measurements", "float", allowed=Number(0.1, 600)),
}


def run(arguments: list[str]) -> int:
    _, values = parse("doctor", arguments, KEYS, "none")
    from reprl.doctor import findings, measure

    for sentence in findings(measure(values["seconds"])):
        print(sentence)
    return 0
