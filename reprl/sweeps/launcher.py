"""Our local launcher as Hydra knows launchers, for every sweeper: `hydra/launcher=reprl`.

Hydra's sweeper -> **launcher** -> plan -> ledger -> one process a job -> score. It is the default
of conf/train.yaml.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from reprl.errors import UserError


class LedgerLauncher(Launcher):
    """Runs a batch of jobs here, none twice; a job's value is its score."""

    # Hydra takes plugins of this name only, and nothing but `reprl` may lie in site-packages
    __module__ = "hydra_plugins.reprl"

    def __init__(
        self, jobs: int | None = None, time_limit: float | None = None, retry: bool = False
    ) -> None:
        self.options: dict[str, Any] = {"jobs": jobs, "time_limit": time_limit, "retry": retry}
        self.config: Any = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        from reprl.runs.folder import RunFolder, score_of
        from reprl.runs.places import check_launch, check_writable
        from reprl.sweeps.ledger import Ledger
        from reprl.sweeps.local import Local
        from reprl.sweeps.plan import Plan, SweepSettings, jobs_of

        about = self.config.hydra
        dirs = [Path(s.path) for s in about.runtime.config_sources if s.schema == "file"]
        name = about.job.config_name
        jobs = jobs_of(job_overrides, dirs, first=initial_job_idx, primary=name)
        folder = Path(about.sweep.dir)
        check_writable(folder)
        check_launch(job.config for job in jobs)
        ledger = Ledger(folder)
        ledger.open(jobs)
        plan = Plan(tuple(jobs), SweepSettings(**self.options), folder)
        code = Local(plan, ledger).run()
        if code > 1:
            raise KeyboardInterrupt
        found = []
        for job, overrides in zip(jobs, job_overrides, strict=True):
            entry = ledger.entries[job.identity]
            done = JobReturn(overrides=list(overrides), working_dir=str(folder / entry.folder))
            finished = entry.status == "finished"
            done.status = JobStatus.COMPLETED if finished else JobStatus.FAILED
            done.return_value = (
                score_of(RunFolder(folder / entry.folder))
                if finished
                else UserError(f"{entry.folder} is {entry.status}: {entry.reason}.")
            )
            found.append(done)
        return found


def register() -> None:
    """Let Hydra find the launcher by its name; asked again, it changes nothing."""
    Plugins.instance().register(LedgerLauncher)
    try:
        parent = importlib.import_module("hydra_plugins")
    except ImportError:  # no plugin is installed
        parent = sys.modules["hydra_plugins"] = ModuleType("hydra_plugins")
        parent.__path__ = []
    place = sys.modules.setdefault(LedgerLauncher.__module__, ModuleType("hydra_plugins.reprl"))
    vars(place)["LedgerLauncher"] = LedgerLauncher
    vars(parent)["reprl"] = place
