"""Sweeps: many runs from one command, each known by its configuration, none done twice.

`reprl train -m` -> plan -> ledger -> launcher -> one run folder a job.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprl.sweeps.ledger import Ledger
    from reprl.sweeps.plan import Plan


def launch(overrides: list[str], config_dirs: list[Path]) -> int:
    """Check every job, then run what is not done yet; the exit code says if all of it is."""
    from reprl.claims import record_of
    from reprl.runs.places import check_launch, check_writable
    from reprl.sweeps import application, plan
    from reprl.sweeps.ledger import Ledger

    if application.asks_for_sweeper(overrides):
        return application.sweep(overrides, config_dirs)
    settings = plan.settings_of(overrides, config_dirs)[1]
    if settings.trials is not None:
        from reprl.sweeps import tune

        return tune.launch(overrides, config_dirs)
    if settings.population is not None:
        from reprl.sweeps import population

        return population.launch(overrides, config_dirs)
    sweep = plan.make(overrides, config_dirs)
    check_writable(sweep.folder)
    check_launch((job.config for job in sweep.jobs), here=not sweep.hydra)
    record_of(sweep.folder)  # refuses claims that cannot be read before any job starts
    ledger = Ledger(sweep.folder)
    if sweep.settings.max_seeds is not None:
        from reprl.sweeps.until_decided import UntilDecided

        return UntilDecided(sweep, ledger, start).run()
    return start(sweep, ledger)


def start(sweep: Plan, ledger: Ledger) -> int:
    """Run what is not done of a plan, here or on a cluster."""
    if sweep.hydra:
        from reprl.sweeps.cluster.launch import Cluster
        from reprl.sweeps.cluster.launcher import choose

        launcher = choose(sweep)
        ledger.open(sweep.jobs)
        return Cluster(sweep, ledger, launcher).run()
    from reprl.sweeps.local import Local

    ledger.open(sweep.jobs)
    return Local(sweep, ledger).run()


def show(overrides: list[str], config_dirs: list[Path]) -> int:
    """Print the jobs of a sweep, checked, and start none."""
    from reprl.sweeps import plan
    from reprl.sweeps.view import what_varies

    settings = plan.settings_of(overrides, config_dirs)[1]
    if settings.trials is not None:
        from reprl.sweeps import tune

        print(tune.described(tune.plan(overrides, config_dirs)))
        return 0
    if settings.population is not None:
        from reprl.sweeps import population

        print(population.described(population.plan(overrides, config_dirs)))
        return 0
    sweep = plan.make(overrides, config_dirs)
    common = [o for o in sweep.jobs[0].overrides if all(o in j.overrides for j in sweep.jobs)]
    what = f"{len(sweep.jobs)} job{'s' if len(sweep.jobs) > 1 else ''}"
    print(f"{what} in {sweep.folder}, each with {' '.join(common)}")
    varying = what_varies(sweep.jobs)
    for job in sweep.jobs:
        print(f"{job.number}  {varying[job.identity]}".rstrip())
    if sweep.settings.max_seeds is not None:
        from reprl.sweeps.until_decided import described

        print(described(sweep))
    return 0
