"""From the command line to one plain dict: Hydra composes, and its errors become one sentence.

Which groups and options there are is known here too; what values are allowed is decided in
`reprl.config.schema`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from reprl.config.overrides import (
    combinations,
    first_line,
    flatten,
    implied,
    parse,
    quoted,
    refuse,
    replacements,
    spelled,
)
from reprl.errors import UserError, nearest, not_yaml
from reprl.runs.places import expanded, is_folder
from reprl.schema import PARTS

SEARCHPATH = "hydra.searchpath="
PRIMARY = "hydra.job.config_name="  # Hydra's own key for what --config-name says
# what Hydra raises at an override it cannot use: not all of it is wrapped in its own exceptions
COMPOSING = (
    *(HydraException, OmegaConfBaseException, YAMLError),
    *(ValueError, TypeError, LookupError, AttributeError),
)
OURS = "train"
FROM_ENVIRONMENT = re.compile(r"\$\{oc\.env:[^${}]*\}$")
HIDDEN = {"hydra", "__pycache__"}


def compose(overrides: list[str], config_dirs: Iterable[Path] = ()) -> dict[str, Any]:
    """Compose `train.yaml` into a resolved dict; its `choices` are the names chosen in groups."""
    dirs = search_dirs(overrides, config_dirs)
    name, home = primary(overrides, dirs)
    overrides = rewritten(overrides, dirs)
    urls = ["pkg://reprl.conf"] * (home is not None) + _urls(dirs)
    overrides = [*overrides, f"{SEARCHPATH}[{','.join(urls)}]"]
    with _hydra(home):
        try:
            composed = hydra_compose(name, overrides, return_hydra_config=True)
            chosen = OmegaConf.to_container(composed.hydra.runtime.choices)
            keys = [str(key) for key in composed if key != "hydra"]
            ours = OmegaConf.masked_copy(composed, keys)
            values = decoded(
                OmegaConf.to_container(ours), OmegaConf.to_container(ours, resolve=True)
            )
        except COMPOSING as error:
            raise _explain(error, name, overrides, dirs) from error
    assert isinstance(values, dict)
    assert isinstance(chosen, dict)
    values["choices"] = choices_of(chosen)
    return {str(key): value for key, value in values.items()}


def decoded(said: Any, resolved: Any) -> Any:
    """Resolved values, with those of environment variables, which are text, read as YAML."""
    if isinstance(said, dict) and isinstance(resolved, dict):
        return {key: decoded(said.get(key), value) for key, value in resolved.items()}
    if isinstance(said, list) and isinstance(resolved, list) and len(said) == len(resolved):
        return [decoded(*pair) for pair in zip(said, resolved, strict=True)]
    if isinstance(said, str) and isinstance(resolved, str) and FROM_ENVIRONMENT.match(said):
        try:
            value = yaml.safe_load(resolved)
        except YAMLError:
            return resolved
        return value if isinstance(value, bool | int | float) else resolved
    return resolved


def rewritten(overrides: list[str], dirs: list[Path]) -> list[str]:
    """The overrides of one run as Hydra takes them, without those that say where it looks."""
    ours = combinations(spelled([o for o in overrides if not o.startswith((SEARCHPATH, PRIMARY))]))
    ours = implied(ours)
    known = groups(dirs)
    for override in parse(ours):
        refuse(override)
        if override.key_or_group in known and not isinstance(override.value(), dict):
            _check_choice(override, dirs)
    return replacements(ours)


def primary(overrides: list[str], dirs: Iterable[Path]) -> tuple[str, Path | None]:
    """The primary configuration, and the user's folder that holds it: None for our own."""
    said = [o.removeprefix(PRIMARY) for o in overrides if o.startswith(PRIMARY)]
    name = said[-1].strip("'\"").removesuffix(".yaml") if said else OURS
    if name == OURS:
        return name, None
    for folder in dirs:
        if (folder / f"{name}.yaml").is_file():
            return name, folder.resolve()
    offered = [OURS, *(f.stem for folder in dirs for f in sorted(folder.glob("*.yaml")))]
    raise UserError(
        f"--config-name={name}: there is no {name}.yaml in the folders of --config-dir: choose "
        f"from {', '.join(offered)}.{nearest(name, offered)}"
    )


def groups(config_dirs: Iterable[Path] = ()) -> list[str]:
    """Every config group of the package and of the user's folders."""
    folders = [f for root in _roots(config_dirs) for f in root.iterdir() if f.is_dir()]
    used = [f.name for f in folders if any(y.name.endswith(".yaml") for y in f.iterdir())]
    return sorted({*used} - HIDDEN)


def options(group: str, config_dirs: Iterable[Path] = ()) -> dict[str, str]:
    """What a group offers: name -> the first comment line of its YAML."""
    found: dict[str, str] = {}
    for root in _roots(config_dirs):
        folder = root / group
        if folder.is_dir():
            for file in folder.iterdir():
                if file.name.endswith(".yaml"):
                    found[file.name.removesuffix(".yaml")] = _summary(file.read_bytes())
    return dict(sorted(found.items()))


def search_dirs(overrides: list[str], config_dirs: Iterable[Path] = ()) -> list[Path]:
    """The user's config folders, from --config-dir and from hydra.searchpath."""
    found = list(config_dirs)
    for text in [o for o in overrides if o.startswith(SEARCHPATH)]:
        entries = parse([text])[0].value()
        for entry in entries if isinstance(entries, list) else [entries]:
            found.append(expanded(str(entry).removeprefix("file://")))
    for folder in found:
        if not is_folder(folder):
            raise UserError(f"there is no config folder '{folder}'.")
    return found


def selections(overrides: list[str], config_dirs: Iterable[Path] = ()) -> list[str]:
    """The overrides that choose a group's option, without those that set a value."""
    found = groups(search_dirs(overrides, config_dirs))
    known = [*found, SEARCHPATH.rstrip("="), PRIMARY.rstrip("=")]
    return [o for o in overrides if re.split("[=@]", o)[0].lstrip("+") in known]


def choices_of(chosen: Mapping[Any, Any]) -> dict[str, str | None]:
    """The names chosen in our groups, from what Hydra says of all of its."""
    flat = {str(k): v for k, v in chosen.items() if not str(k).startswith("hydra/")}
    # `auxiliary@auxiliary.curl: curl` entries are one of several losses: they read as a+b.
    for group in PARTS:
        several = sorted(str(v) for k, v in flat.items() if k.startswith(f"{group}@"))
        if several:
            flat[group] = "+".join(several)
    return {key: flat[key] for key in sorted(flat) if "@" not in key}


def _check_choice(override: Override, dirs: list[Path]) -> None:
    group, value = override.key_or_group, override.value()
    if override.is_delete():
        return
    value = "null" if value is None else value
    offered = options(group, dirs)
    if str(value) not in offered:
        raise UserError(
            f"{group}={value} is unknown: choose from {', '.join(offered)}."
            f"{nearest(str(value), offered)}"
        )


def _explain(error: Exception, name: str, overrides: list[str], dirs: list[Path]) -> UserError:
    missing = re.search(r"Could not (?:override|delete from config\.) '([\w.@/]+)'", str(error))
    if missing is None:
        what = _culprit(name, overrides) if not isinstance(error, HydraException) else ""
        whole = f"the configuration does not compose{what}: {first_line(error)}"
        return UserError(_unreadable(error, dirs) or whole)
    key, known = missing.group(1), groups(dirs)
    chosen = [o for o in selections(overrides, dirs) if o.partition("=")[0] != key]
    try:
        plain = OmegaConf.to_container(hydra_compose(name, chosen))
    except COMPOSING:  # more than one of them is wrong
        plain = {}
    keys = list(flatten(plain))  # type: ignore[arg-type]
    if key in keys and re.search("Could not delete", str(error)):
        raise UserError(
            f"'~{key}' cannot be taken away: it is null already, and a run needs the key."
        ) from error
    sections = {key.rsplit(".", n)[0] for key in keys for n in range(1, key.count(".") + 1)}
    inner = re.search(r"full_key: ([\w.]+)", str(error.__cause__))
    if inner and key in {*keys, *sections}:  # the key is there, but not what its value sets in it
        key = inner.group(1)
    similar = nearest(key, {*keys, *sections, *known} - {key}) or nearest(
        key.rsplit(".", 1)[-1], {k.rsplit(".", 1)[-1] for k in keys} - {key}
    )
    return UserError(f"there is no key '{key}' in the configuration.{similar}")


def _culprit(name: str, overrides: list[str]) -> str:
    """Which override alone already fails, for an error that does not say it."""
    *own, search = overrides
    for text in own:
        try:
            hydra_compose(name, [text, search])
        except COMPOSING:
            return f" with '{text}'"
    return ""


def _unreadable(error: Exception, dirs: list[Path]) -> str | None:
    """The sentence on a file that is no YAML or no text, where the error comes from one."""
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem_mark.name} {not_yaml(error)}"
    if isinstance(error, UnicodeDecodeError):
        for file in [f for folder in dirs for f in sorted(folder.rglob("*.yaml"))]:
            if file.is_file() and file.read_bytes().startswith(error.object):
                return f"{file} is not text in UTF-8."
    return None


def _summary(data: bytes) -> str:
    text = data.decode(errors="replace")
    comments = [line.lstrip("# ").strip() for line in text.splitlines() if line.startswith("#")]
    return next((c for c in comments if c and not c.startswith("@package")), "")


def _roots(config_dirs: Iterable[Path]) -> list[Traversable]:
    return [resources.files("reprl.conf"), *config_dirs]


def _urls(dirs: list[Path]) -> list[str]:
    return [quoted(f"file://{d.resolve()}") for d in dirs]


@contextmanager
def _hydra(home: Path | None) -> Iterator[None]:
    GlobalHydra.instance().clear()
    place = (
        initialize_config_module("reprl.conf", version_base="1.3")
        if home is None
        else initialize_config_dir(str(home), version_base="1.3")
    )
    with place:
        yield
