"""Sweeps: many runs from one command, each known by its configuration, none done twice.

`reprl train -m` -> plan -> ledger -> launcher -> one run folder a job.
"""

from __future__ import annotations

from pathlib import Path


def launch(overrides: list[str], config_dirs: list[Path]) -> int:
    """Check every job, then run what is not done yet; the exit code says if all of it is."""
    from reprl.config import check_launch
    from reprl.sweeps import plan
    from reprl.sweeps.ledger import Ledger
    from reprl.sweeps.local import Local

    sweep = plan.make(overrides, config_dirs)
    check_launch(sweep.jobs[0].config)
    ledger = Ledger(sweep.folder)
    if sweep.hydra:
        from reprl.sweeps.cluster import Cluster
        from reprl.sweeps.cluster_launcher import choose

        launcher = choose(sweep)
        ledger.open(sweep.jobs)
        return Cluster(sweep, ledger, launcher).run()
    ledger.open(sweep.jobs)
    return Local(sweep, ledger).run()
