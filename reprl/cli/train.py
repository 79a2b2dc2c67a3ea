"""`reprl train`: compose, check, then train one run here, or each job of a sweep in its process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reprl import trust
from reprl.cli.arguments import name_folders
from reprl.distributed.environment import place, show_life
from reprl.errors import UserError
from reprl.runs.places import expanded, is_folder
from reprl.schema import CHOSEN

HELP = "train one run, or with -m a sweep: reprl train encoder=impala seed=1"

USAGE = """reprl train [group=option ...] [key=value ...] [-m] [--config-dir DIR] [--cfg [job]]

  group=option      choose a part: {groups}
  key=value         set a value, as in total_steps=1e6 or algo.learning_rate=3e-4
  -m                a sweep, in Hydra's syntax: seed=0,1,2 or seed='range(5)'
  --config-dir DIR  a folder with your own YAML; modules beside it can be imported
  trust=MODULE,...  modules of yours that the run named by parent= may use
  --config-name X   a primary configuration of your own, X.yaml in that folder, instead of train
  --cfg             print the resolved configuration, or with -m the planned jobs, and stop;
                    --cfg job|hydra|all, --resolve, --package P, --info [WHAT] are Hydra's own
  hydra.KEY=VALUE   settings of Hydra's; hydra/launcher=NAME and hydra/sweeper=NAME with -m
"""

SHOWN = ("job", "hydra", "all")  # what Hydra's own --cfg prints
INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
PACKAGE = ("--package", "-p")


@dataclass(frozen=True)
class Request:
    """The command line, taken apart."""

    overrides: list[str]
    config_dirs: list[Path]
    multirun: bool = False
    show: bool = False
    help: bool = False
    sweep: str | None = None
    hydra: tuple[str, ...] = ()  # options that Hydra itself answers


def run(arguments: list[str]) -> int:
    request = understand(arguments)
    if request.help:
        print(help_page())
        return 0
    show_life()
    python_path = user_code(request)
    if request.hydra:
        from reprl.sweeps.application import inspect

        return inspect(request.overrides, request.config_dirs, list(request.hydra))
    if request.multirun:
        from reprl.sweeps import launch, show

        return (show if request.show else launch)(request.overrides, request.config_dirs)
    from reprl.config.placement import described
    from reprl.config.schema import load
    from reprl.runs.places import check_launch, check_new
    from reprl.runs.resources import say_start

    config = load(request.overrides, request.config_dirs)
    if request.show:
        import yaml

        from reprl.components import require_known_keys

        for part in CHOSEN:
            require_known_keys(part, getattr(config, part))

        print(yaml.safe_dump(config.plain(), sort_keys=False, default_flow_style=None), end="")
        return 0
    check_new(config.run_dir)
    check_launch([config])
    here = place()
    if here is None or here.rank == 0:
        say_start(config)
    if here is None and config.progress != "off":
        print(described(config), flush=True)
    if here is None and config.ranks > 1:
        from reprl.distributed.launch import supervise

        return supervise(["train", *arguments], config.ranks)
    from reprl.runs.train import start

    command = ["reprl", "train", *arguments]

    def train() -> int:
        return start(config, command=command, python_path=python_path, sweep=request.sweep)

    if any(o.lstrip("+~").startswith(("hydra.", "hydra/")) for o in request.overrides):
        from reprl.sweeps import application

        if application.asks_for_hydra(request.overrides):
            return application.run(request.overrides, request.config_dirs, train)
    return train()


def understand(arguments: list[str]) -> Request:
    """Split options from overrides."""
    overrides: list[str] = []
    dirs: list[Path] = []
    flags = {"multirun": False, "show": False, "help": False}
    named = {
        "-m": "multirun",
        "--multirun": "multirun",
        "--cfg": "show",
        "-h": "help",
        "--help": "help",
    }
    sweep_name: str | None = None
    hydra: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        option, equals, value = argument.partition("=")
        if option in ("--cfg", "-c") and (value or (rest[:1] and rest[0] in SHOWN)):
            value = value or rest.pop(0)
            if value not in SHOWN:
                raise UserError(f"--cfg={value} is unknown: choose from {', '.join(SHOWN)}.")
            hydra += ["--cfg", value]
        elif option == "--info":
            value = value or (rest.pop(0) if rest[:1] and rest[0] in INFO else "all")
            if value not in INFO:
                raise UserError(f"--info={value} is unknown: choose from {', '.join(INFO)}.")
            hydra += ["--info", value]
        elif option == "--resolve":
            hydra.append("--resolve")
        elif option in ("--config-dir", "-cd", "--sweep-name", "--config-name", "-cn", *PACKAGE):
            if not equals:
                if not rest:
                    raise UserError(f"{option} needs a value.")
                value = rest.pop(0)
            if option == "--sweep-name":
                sweep_name = value
                continue
            if option in PACKAGE:
                hydra += ["--package", value]
                continue
            if option in ("--config-name", "-cn"):
                if not value or "=" in value:
                    raise UserError(
                        f"{option} {value} names no configuration: give the name of a YAML file "
                        "without its ending, such as --config-name=mine."
                    )
                overrides.append(f"hydra.job.config_name={value}")
                continue
            if not value:
                raise UserError("--config-dir= is empty: name a folder, or leave it out.")
            folder = expanded(value)
            if not is_folder(folder):
                raise UserError(f"--config-dir: there is no folder '{value}'.")
            dirs.append(folder.resolve())
        elif option in ("hydra.run.dir", "hydra.sweep.dir") and equals:
            overrides.append(f"run_dir={value}")  # Hydra's name of the folder
        elif option == "trust" and equals:
            trust.allow(modules=[word for word in value.split(",") if word])
        elif argument in named:
            flags[named[argument]] = True
        elif argument.startswith("-"):
            raise UserError(
                f"reprl train has no option '{argument}': choose from -m, --config-dir, "
                "--config-name, --cfg, --resolve, --package, --info, --help; values are given as "
                "key=value."
            )
        else:
            overrides.append(argument)
    if hydra == ["--resolve"]:
        raise UserError("--resolve belongs to --cfg job, hydra or all.")
    if hydra and flags["multirun"]:
        raise UserError(
            f"{' '.join(hydra)} shows one run and goes without -m; --cfg alone, with -m, prints "
            "the planned jobs."
        )
    return Request(overrides, dirs, **flags, sweep=sweep_name, hydra=tuple(hydra))


def user_code(request: Request) -> list[str]:
    """Let modules in and beside the folders of the user's configs be imported."""
    from reprl.config.compose import search_dirs

    dirs = search_dirs(request.overrides, request.config_dirs)
    return name_folders(dirs)


def help_page() -> str:
    """How to call it, and train.yaml, which says what every key means."""
    from importlib import resources

    from reprl.config.compose import groups

    contents = (resources.files("reprl.conf") / "train.yaml").read_text()
    return USAGE.format(groups=", ".join(groups())) + "\nconf/train.yaml:\n\n" + contents.rstrip()
