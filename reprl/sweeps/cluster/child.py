"""`python -m reprl.sweeps.cluster.child PARENT ...`: `reprl ...` that stops when its parent dies.

A cluster that kills a job's process starts the job again, perhaps on another node: the training
left behind must write its checkpoint and end, or both would do the same work.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from reprl.cli import main

PR_SET_PDEATHSIG = 1


def follow(parent: int) -> None:
    """Ask the kernel for a SIGTERM at the parent's death; elsewhere than on Linux do nothing."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked
        sys.exit("the process that started this job is gone")


if __name__ == "__main__":
    follow(int(sys.argv[1]))
    sys.exit(main(sys.argv[2:], process=True))
