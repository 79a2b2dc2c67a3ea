"""`python -m reprl.sweeps.cluster.submit LAUNCH ...`: gives a launch to Hydra's launcher; waits.

It is a process of its own, because a launcher prints, blocks, retries and dies as it likes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import hydra

from reprl.sweeps.cluster.job import Launch, work


def connect(arguments: dict[str, Any]) -> None:
    """Join or start the Ray cluster; what goes wrong is the last line of the log."""
    import ray

    try:
        ray.init(**arguments)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        print(f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}", flush=True)
        sys.exit(2)


def main() -> None:
    launch = Launch.read(Path(sys.argv.pop(1)))
    if launch.ray is not None:
        connect(launch.ray)  # the launcher takes the connection it finds
    (launch.place / "connected").touch()
    # Hydra reads sys.argv; each job is its number in the launch.
    hydra.main(version_base="1.3", config_path=None, config_name=None)(work)()


if __name__ == "__main__":
    main()
