"""`reprl completion bash|zsh|fish`: the script that lets the shell complete commands and keys."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from reprl.errors import UserError, unknown

HELP = 'print a shell\'s completion script: eval "$(reprl completion bash)"'

BASH = """_reprl() {
  local line="${COMP_LINE:0:$COMP_POINT}" word
  word="${line##* }"
  local words
  words=$(reprl completion words "$line" 2>/dev/null)
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  # bash replaces only what follows the last =, which breaks words by default
  if [[ "$word" == *=* && "$COMP_WORDBREAKS" == *=* ]]; then
    local prefix="${word%=*}=" i
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[$i]="${COMPREPLY[$i]#"$prefix"}"; done
  fi
}
complete -o nospace -o default -F _reprl reprl
"""
FISH = """complete -c reprl -a '(reprl completion words (commandline -cp) 2>/dev/null)'
"""
SCRIPTS = {
    "bash": BASH,
    "zsh": "autoload -U +X bashcompinit && bashcompinit\n" + BASH,
    "fish": FISH,
}


def run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"reprl completion {'|'.join(SCRIPTS)}\n\n{HELP}")
        return 0
    if arguments[0] == "words":
        print("\n".join(candidates(arguments[1] if len(arguments) > 1 else "")))
        return 0
    if arguments[0] not in SCRIPTS:
        raise unknown("shell", arguments[0], SCRIPTS)
    print(SCRIPTS[arguments[0]], end="")
    return 0


def candidates(line: str) -> list[str]:
    """What may stand at the end of an unfinished command line."""
    from reprl.cli import commands

    words = line.split()[1:]
    word = "" if line.endswith(" ") or not words else words[-1]
    before = words if not word else words[:-1]
    if not before:
        found: Iterable[str] = [f"{name} " for name in commands()]
    elif before[0] in ("train", "pretrain", "list"):
        found = _groups() if before[0] == "list" else _overrides(word)
    else:
        found = _keys(before[0], word)
    return [c for c in found if c.startswith(word)]


def _overrides(word: str) -> list[str]:
    from reprl.config.compose import compose, groups, options
    from reprl.config.overrides import flatten

    group, equals, _ = word.partition("=")
    known = groups()
    if equals and group in known:
        return [f"{group}={name}" for name in options(group)]
    if equals and group == "env.variant":
        from reprl.envs.variation import variants

        return [f"{group}={name}" for name in variants()]
    keys = [k for k in flatten(compose([])) if not k.startswith("choices.") and "_target_" not in k]
    return [f"{key}=" for key in [*known, *keys]] + ["-m", "--config-dir", "--cfg"]


def _groups() -> list[str]:
    from reprl.config.compose import groups

    return [*groups(), "variant"]


def _keys(command: str, word: str) -> list[str]:
    try:
        keys = getattr(importlib.import_module(f"reprl.cli.{command}"), "KEYS", {})
    except ModuleNotFoundError:
        return []
    name, equals, value = word.partition("=")
    if equals and name in keys and keys[name].choices is not None:
        earlier = value.rpartition(",")[0]
        prefix = f"{name}={earlier}," if earlier else f"{name}="
        try:
            return [f"{prefix}{choice}" for choice in keys[name].choices()]
        except UserError:
            return []
    return [f"{key}=" for key in keys]
