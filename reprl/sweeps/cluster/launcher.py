"""Which Hydra launcher a sweep asks for, and every reason it cannot be used, said at once."""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import dataclass
from typing import Any

from hydra import compose, initialize
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import OmegaConf

from reprl.config.overrides import flatten, parse
from reprl.errors import UserError, nearest
from reprl.ray_cluster import init_arguments
from reprl.sweeps.plan import Plan

EXTRAS = {"submitit_slurm": "slurm", "submitit_local": "slurm", "ray": "ray"}
MODULES = {"slurm": "hydra_submitit_launcher", "ray": "hydra_ray_launcher"}
KNOWN = (*EXTRAS, "joblib", "basic")  # any other plugin that is installed is taken too
REQUEUES = 100  # a run goes on in as many time slots as it needs
TEN_DAYS = 14_400  # minutes; submitit's local executor would stop a job after one hour
ADDRESS = "hydra.launcher.ray.init.address"


@dataclass(frozen=True)
class Launcher:
    """A launcher with its settings, ready to be given to Hydra."""

    name: str
    overrides: tuple[str, ...]
    ray: dict[str, Any] | None  # arguments of ray.init


def choose(plan: Plan) -> Launcher:
    """The launcher a plan names; the first thing wrong raises a UserError."""
    name, given = _name(plan.hydra)
    _require(name)
    keys = {o.key_or_group for o in parse(given)}
    own = [text for key, text in _defaults(name, plan).items() if key not in keys]
    settings = _compose(name, [*given, *own])
    if plan.settings.jobs or name == "submitit_local":
        count = plan.settings.jobs or len(os.sched_getaffinity(0))
        slots = {"submitit_slurm": "launcher.array_parallelism", "joblib": "launcher.n_jobs"}
        key = slots.get(name, "sweeper.max_batch_size")
        if f"hydra.{key}" not in keys:
            own.append(f"hydra.{key}={count}")
    ray = init_arguments(dict(settings["ray"]["init"]), ADDRESS) if name == "ray" else None
    return Launcher(name, (f"hydra/launcher={name}", *given, *own), ray)


def _name(overrides: tuple[str, ...]) -> tuple[str, list[str]]:
    """The launcher's name, and what else is said about it."""
    for override in parse(list(overrides)):
        if override.is_sweep_override():
            raise UserError(
                f"'{override.input_line}' gives several values: a sweep has one launcher; a comma "
                "inside a value is quoted, as in \"hydra.launcher.partition='a,b'\"."
            )
    names = [o for o in overrides if o.partition("=")[0] == "hydra/launcher"]
    rest = [o for o in overrides if o not in names]
    if not names:
        raise UserError(
            f"'{rest[0]}' sets a launcher that is not chosen: add hydra/launcher= with one of "
            f"{', '.join(KNOWN)}."
        )
    return names[-1].partition("=")[2], rest


def _require(name: str) -> None:
    if name not in EXTRAS:
        _require_plugin(name)
        return
    extra = EXTRAS[name]
    try:
        found = importlib.util.find_spec(f"hydra_plugins.{MODULES[extra]}")
    except ModuleNotFoundError:  # no plugin of any kind
        found = None
    if found is None:
        raise UserError(
            f"hydra/launcher={name} is not installed: pip install 'reprl[{extra}]' adds it."
        )
    if name == "submitit_slurm" and shutil.which("sbatch") is None:
        raise UserError(
            "hydra/launcher=submitit_slurm: there is no sbatch on this machine; start the sweep "
            "where SLURM's commands are, usually a login node."
        )


def _require_plugin(name: str) -> None:
    """Refuse a launcher that no plugin of Hydra's offers here."""
    GlobalHydra.instance().clear()
    with initialize(version_base="1.3", config_path=None):
        try:
            compose(overrides=[f"hydra/launcher={name}"], return_hydra_config=True)
        except HydraException:
            here = "" if name != "joblib" else " (pip install hydra-joblib-launcher adds it)"
            raise UserError(
                f"hydra/launcher={name} is unknown or not installed{here}: choose from "
                f"{', '.join(KNOWN)}; without it the sweep runs on this "
                f"machine.{nearest(name, KNOWN)}"
            ) from None


def _defaults(name: str, plan: Plan) -> dict[str, str]:
    """What the launcher is told unless the user says otherwise."""
    cores = max(job.config.threads + job.config.env.workers for job in plan.jobs)
    gpus = any(job.config.device.startswith("cuda") for job in plan.jobs)
    if name not in EXTRAS:
        return {}
    if name == "ray":
        values: dict[str, Any] = {"ray.remote.num_cpus": cores}
        values |= {"ray.remote.num_gpus": 1} if gpus else {}
    else:
        values = {"cpus_per_task": cores} | ({"gpus_per_node": 1} if gpus else {})
        slurm = {"max_num_timeout": REQUEUES}
        values |= slurm if name == "submitit_slurm" else {"timeout_min": TEN_DAYS}
    return {f"hydra.launcher.{k}": f"++hydra.launcher.{k}={v}" for k, v in values.items()}


def _compose(name: str, overrides: list[str]) -> dict[str, Any]:
    """The launcher's settings, checked by Hydra against what that launcher knows."""
    GlobalHydra.instance().clear()
    with initialize(version_base="1.3", config_path=None):
        base = compose(overrides=[f"hydra/launcher={name}"], return_hydra_config=True)
        known = flatten({"hydra": {"launcher": _plain(base)}})
        for override in parse(overrides):
            try:
                compose(
                    overrides=[f"hydra/launcher={name}", str(override.input_line)],
                    return_hydra_config=True,
                )
            except HydraException as error:
                reason = str(error.__cause__ or error).strip().splitlines()[0].rstrip(".")
                similar = nearest(override.key_or_group, known)
                raise UserError(f"'{override.input_line}': {reason}.{similar}") from None
        both = [f"hydra/launcher={name}", *overrides]
        return _plain(compose(overrides=both, return_hydra_config=True))


def _plain(config: Any) -> dict[str, Any]:
    # Not resolved: the sweep's folder is only known to Hydra when it runs.
    return dict(OmegaConf.to_container(config.hydra.launcher, resolve=False))  # type: ignore[arg-type]
