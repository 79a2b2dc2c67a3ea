"""The `reprl` command: finds the module of the named command and turns errors into exit codes.

Exit codes: 0 done, 1 failed or diverged, 2 the user's input, 130 and 143 interrupted.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

from reprl import crash, trust
from reprl.disk import FULL, out_of_space
from reprl.errors import UserError, nearest
from reprl.escaping import shown

# Threads that spin for long after a parallel region steal the cores from the env workers, and
# threads that do not spin at all wake up too late for the next layer. The OpenMP runtime reads
# these only once, when torch loads.
OPENMP = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "20000"}
LOOKING = (
    "report",
    "rate",
    "verify",
    "runs",
    "diff",
)  # import nobody's code but ours
ORDER = (
    *("train", "pretrain", "record", "resume", "evaluate", "attention", "probe", "layers"),
    *("intervene", "breaking", "embed", "plasticity", "video", "report", "rate", "verify"),
    *("runs", "diff"),
)


def main(arguments: list[str] | None = None, *, process: bool | None = None) -> int:
    """Run one command; the console script and `python -m reprl` both end here.

    A `process` is one that ends with this command.
    """
    process = arguments is None if process is None else process
    code = _run(sys.argv[1:] if arguments is None else arguments, process)
    if process and (writers := sys.modules.get("reprl.runs.writers")) is not None:
        code = writers.leave(code)
    if process and (ranks := sys.modules.get("reprl.distributed.ranks")) is not None:
        code = ranks.leave(code)
    return code


def _run(arguments: list[str], process: bool) -> int:
    for name, value in OPENMP.items():
        os.environ.setdefault(name, value)
    trust.begin(process=process)
    if process and is_training(arguments):  # composing and loading torch take seconds
        print("reading the configuration ...", flush=True)
    try:
        return dispatch(arguments)
    except UserError as error:
        print(f"reprl: {shown(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("reprl: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `reprl list | head` is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        with suppress(OSError):  # even the words may find no room
            if out_of_space(error):
                print(f"reprl: {FULL}.", file=sys.stderr)
            else:
                print(f"reprl: {crash.sentence(error, _runs_named(arguments))}", file=sys.stderr)
        return 1


def is_training(arguments: list[str]) -> bool:
    """Whether a command line asks for a run to be trained and watched, not only to be shown."""
    words = arguments[1:]
    shows = ("-h", "--help", "--cfg", "-c", "--info", "--resolve", "progress=off")
    hushed = any(word.startswith(shows) for word in words) or "RANK" in os.environ
    return arguments[:1] in (["train"], ["pretrain"]) and not hushed


def _runs_named(arguments: list[str]) -> list[Path]:
    """The run folders on a command line, where a crash can leave its traceback."""
    with suppress(OSError, ValueError):
        found = [Path(word) for word in arguments[1:] if "=" not in word]
        return [path for path in found if (path / "run.json").is_file()]
    return []


def dispatch(arguments: list[str]) -> int:
    """Call `run` of the module named by the first argument."""
    found = commands()
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview(found))
        return 0
    if arguments[0] == "--version":
        from reprl import __version__

        print(f"reprl {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in found:
        raise UserError(
            f"there is no command '{name}': choose from {', '.join(found)}.{nearest(name, found)}"
        )
    with trust.closed() if name in LOOKING else nullcontext():
        return int(importlib.import_module(f"reprl.cli.{name}").run(rest))


def commands() -> dict[str, str]:
    """Every command with its one line of help, read without importing the command."""
    found: dict[str, str] = {}
    for file in sorted(Path(__file__).parent.glob("*.py")):
        text = _help(file)
        if text is not None:
            found[file.stem] = text
    first = [name for name in ORDER if name in found]
    return {name: found[name] for name in first + [n for n in found if n not in first]}


def overview(found: dict[str, str]) -> str:
    """The page `reprl --help` prints."""
    width = max(map(len, found), default=0)
    lines = ["reprl COMMAND [DIR...] [key=value ...]", ""]
    lines += [f"  {name:<{width}}  {text}" for name, text in found.items()]
    return "\n".join([*lines, "", "`reprl COMMAND --help` shows the keys of a command."])


def _help(file: Path) -> str | None:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        named = any(isinstance(t, ast.Name) and t.id == "HELP" for t in targets)
        if named and isinstance(node.value, ast.Constant):
            return str(node.value.value)
    return None
