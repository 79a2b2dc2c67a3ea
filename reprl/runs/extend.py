"""A run that is to be longer than it was meant to be: its total_steps is changed in its folder.

`reprl extend` -> **extend** -> `reprl resume`, which goes on from the newest checkpoint.
"""

from __future__ import annotations

from typing import Any

import yaml

from reprl.checkpoint.files import candidates
from reprl.config.overrides import flatten
from reprl.config.schema import check, hash_of
from reprl.disk import write_atomically
from reprl.errors import UserError
from reprl.runs.folder import RunFolder, now, step_of
from reprl.schedules import is_spec, schedule
from reprl.schema import PARTS
from reprl.settings import declared
from reprl.trust import reading


def extend(folder: RunFolder, total: int) -> None:
    """Give a run another end and let it be resumed; says what that does to its schedules."""
    with folder.lock(), reading(folder.path):
        record, settings = folder.record(), folder.settings()
        before = int(record.get("extending") or folder.config().total_steps)
        unchanged = record.get("config_hash") in (None, hash_of(settings))
        if not unchanged and record.get("extending") is None:
            raise UserError(
                f"{folder.config_file} was changed after the run began: undo that, or begin a new "
                f"run with parent={folder.path}."
            )
        candidates(folder.path, None)  # refuses a run without a checkpoint
        if (at := (settings.get("stop") or {}).get("step")) is not None:
            raise UserError(
                f"{folder.path} is to end at stop.step={at}: train on with parent={folder.path} "
                "and another stop.step."
            )
        step = step_of(record)
        if total <= max(step, before):
            raise UserError(
                f"total_steps={total} is not beyond the {max(step, before)} steps of {folder.path}."
            )
        changed = {**settings, "total_steps": total}
        check({**changed, "run_dir": None})
        folder.update(extending=before)  # a kill between the two files is known by it
        text = yaml.safe_dump(changed, sort_keys=False, default_flow_style=None, width=100)
        write_atomically(folder.config_file, text)
        history = [*(record.get("extended") or []), {"from": before, "to": total, "when": now()}]
        folder.update(
            status="interrupted",
            reason=f"extended from {before} to {total} steps",
            config_hash=hash_of(changed),
            extended=history,
            extending=None,
        )
        said = stretched(settings, step, before, total)
    print(f"{folder.path}: {before:,} steps become {total:,}; it goes on from step {step:,}.")
    for sentence in said:
        print(sentence)


def stretched(settings: dict[str, Any], step: int, before: int, total: int) -> list[str]:
    """What each schedule was at a step and is now: they end with the run, so they are stretched."""
    found = []
    for key, spec in _schedules(settings):
        was, is_now = (schedule(spec)(1.0 - step / end) for end in (before, total))
        found.append(f"{key} is stretched to the new end: {was:.3g} becomes {is_now:.3g} here.")
    return found


def _schedules(settings: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    keys = [key.removesuffix(".start") for key in flatten(settings) if key.endswith(".start")]
    for part in PARTS:
        declares = declared(part, part, settings.get(part) or {})
        keys += [key for key, _, _, allowed in declares if getattr(allowed, "scheduled", False)]
    found = []
    for key in dict.fromkeys(keys):
        value: Any = settings
        for word in key.split("."):
            value = value[word]
        if is_spec(value) and value.get("kind", "linear") != "constant":
            found.append((key, value))
    return found
