"""A rank without a network, for tests of the launcher: `python -m ... FATE FOLDER`.

Rank 1 meets its fate; rank 0 names its folder and waits to be ended.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from reprl.distributed.environment import LOST, place, show_life


def main(fate: str, folder: str) -> int:
    here = place()
    assert here is not None
    assert here.beat is not None
    show_life()
    if here.rank == 0:
        os.write(here.beat, f"folder {folder}\n".encode())
        time.sleep(0.5)
        if fate == "diverged":
            return 1  # both end by themselves: rank 0 has said why
        if fate == "lonely":
            time.sleep(1.0)
            return LOST
        time.sleep(600)
    if fate in ("killed", "lonely"):
        os.kill(os.getpid(), signal.SIGKILL)
    if fate == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if fate == "failed":
        print("first line\nno such ROM", file=sys.stderr)
        return 3
    if fate == "diverged":
        time.sleep(600)  # it would wait for the others for ever
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
