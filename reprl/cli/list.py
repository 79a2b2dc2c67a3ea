"""`reprl list`: every option there is, with its one line of help."""

from __future__ import annotations

from pathlib import Path

from reprl.envs.defaults import PROCGEN
from reprl.errors import UserError, nearest

HELP = "what there is to choose from: groups, their options, variants, keys"


def run(arguments: list[str]) -> int:
    from reprl.cli.train import understand

    request = understand(arguments)
    if request.help:
        print(f"reprl list [group] [--config-dir DIR]\n\n{HELP}")
        return 0
    pages = catalogue(request.config_dirs)
    if request.overrides:
        for name in request.overrides:
            name = "variant" if name == "variants" else name
            if name not in pages:
                raise UserError(
                    f"there is no group '{name}': choose from {', '.join(pages)}."
                    f"{nearest(name, pages)}"
                )
            print(page(name, pages[name]))
    else:
        print("\n\n".join(page(name, entries) for name, entries in pages.items()))
    return 0


def catalogue(config_dirs: list[Path]) -> dict[str, dict[str, str]]:
    """Group -> option -> help; the variants and suites are a group too."""
    from reprl.config.compose import groups, options
    from reprl.envs.machine import games
    from reprl.envs.procgen_names import procgen_games
    from reprl.envs.variation import find, variants

    pages = {group: options(group, config_dirs) for group in groups(config_dirs)}
    pages["variant"] = {name: find(name).help for name in variants()}
    pages["game"] = {name: _about(name) for name in (*games(), *procgen_games())}
    return pages


def _about(name: str) -> str:
    """What is known of a game, in one line."""
    from reprl.envs.games import game
    from reprl.envs.variation import variants

    found = game(name)
    if name.startswith(PROCGEN):
        return "no truth: training levels against unseen ones (env=procgen, extra reprl[procgen])."
    if not found.has_truth:
        return "no truth: played, drawn and reported, not scored for attention."
    script = " and a scripted player" if found.scripted else ""
    own = len(variants(name))
    return f"truth ({', '.join(found.classes)}){script}; {own} variants."


def page(name: str, entries: dict[str, str]) -> str:
    """One group: the option names, and beside them what they say about themselves."""
    width = max(map(len, entries), default=0)
    return "\n".join([name, *(f"  {n:<{width}}  {text}".rstrip() for n, text in entries.items())])
