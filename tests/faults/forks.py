"""A process that has imported everything once and forks for every command it is told to run.

harness -> **forks** -> `reprl` commands. A forked command is a process of its own (pid, session,
open files) that can be killed at any moment, and begins in milliseconds instead of seconds. Orders
come as lines of JSON on stdin; pids and exit codes go out as lines on stdout.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any


def serve() -> int:
    """Fork for every order until stdin ends; only a forked command returns from here early."""
    import hydra._internal.core_plugins.importlib_resources_config_source
    import imageio.plugins.ffmpeg
    import tensorboard.plugins.hparams
    import torch.utils.tensorboard

    import reprl.agents
    import reprl.analysis.attention.study
    import reprl.analysis.attention.watch
    import reprl.analysis.probe.study
    import reprl.analysis.report
    import reprl.checkpoint.storage
    import reprl.evaluation.baselines
    import reprl.evaluation.campaign
    import reprl.evaluation.twin
    import reprl.runs.train
    import reprl.sweeps.local

    del hydra, imageio, tensorboard, torch, reprl
    say(ready=os.getpid())
    living: set[int] = set()
    waiting = b""
    while True:
        readable, _, _ = select.select([0], [], [], 0.02)
        while living:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            living.discard(pid)
            say(pid=pid, code=os.waitstatus_to_exitcode(status))
        if not readable:
            continue
        data = os.read(0, 65536)
        if not data:
            for pid in living:
                os.killpg(pid, signal.SIGKILL)
            return 0
        *lines, waiting = (waiting + data).split(b"\n")
        for line in lines:
            pid = os.fork()
            if not pid:
                return command(json.loads(line))
            living.add(pid)
            say(started=pid)


def say(**values: Any) -> None:
    os.write(1, json.dumps(values).encode() + b"\n")


def command(order: dict[str, Any]) -> int:
    """One command, in the forked process, as the console script would run it."""
    os.setsid()
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(output)
    os.close(nothing)
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    if order["fault"]:
        FAULTS[order["fault"]]()
    sys.argv = ["reprl", *order["arguments"]]
    from reprl.cli import main

    return main()


def clock_jumps() -> None:
    """Looks at the wall clock are a day back or ahead; the monotonic clock is not hurt."""
    real, looks = time.time, iter(range(1 << 62))

    def jumping() -> float:
        return real() + 86_400 * (0, -1, 1)[next(looks) % 3]

    def shown(form: str, when: Any = None) -> str:
        return text(form, time.localtime(jumping()) if when is None else when)

    text, time.strftime = time.strftime, shown
    time.time = jumping


def tensorboard_dies() -> None:
    """The event file cannot be written any more after the third row."""
    from torch.utils.tensorboard import SummaryWriter

    real, flushes = SummaryWriter.flush, iter(range(1 << 62))

    def flush(self: Any) -> None:
        if next(flushes) >= 3:
            raise OSError(5, "Input/output error")
        real(self)

    SummaryWriter.flush = flush  # type: ignore[method-assign]


def forked_jobs() -> None:
    """No fault: the jobs of a sweep are forks too, where their launcher would start Python anew.

    The launcher's side is the real one (`Popen`, its pid, its handles): only `exec` is left out.
    """
    real = subprocess.Popen

    class Forked(real):  # type: ignore[type-arg,misc,valid-type]
        def __init__(self, todo: list[str], **options: Any) -> None:
            def instead_of_exec() -> None:
                nothing = os.open(os.devnull, os.O_RDWR)
                for handle in map(int, os.listdir("/proc/self/fd")):
                    if handle > 2 and handle != nothing:  # claims are the launcher's alone
                        os.dup2(nothing, handle)
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
                    signal.signal(number, signal.SIG_DFL)
                subprocess.Popen = real  # type: ignore[misc]
                os.environ.clear()
                os.environ.update(options["env"])
                code = 1
                try:
                    sys.argv = ["reprl", *todo[4:]]  # after python -P -m reprl
                    from reprl.cli import main

                    code = main()
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)

            super().__init__(todo, preexec_fn=instead_of_exec, **options)

    subprocess.Popen = Forked  # type: ignore[misc]


FAULTS = {
    "clock_jumps": clock_jumps,
    "forked_jobs": forked_jobs,
    "tensorboard_dies": tensorboard_dies,
}

if __name__ == "__main__":
    sys.exit(serve())
