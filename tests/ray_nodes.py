"""A real Ray cluster of two nodes on loopback, in an environment that `make setup-ray` makes."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.reprl.sweeps.test_slurm import wait_for

BIN = Path(__file__).parents[1] / ".venv-ray" / "bin"
TOYS = Path(__file__).parent / "toys"
NEEDS_RAY = [
    pytest.mark.slow,
    pytest.mark.skipif(not BIN.exists(), reason="no .venv-ray: `make test-ray` makes and uses it"),
]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Node:
    """One node of the cluster, in a process group of its own."""

    def __init__(self, place: Path, environment: dict[str, str], *arguments: str) -> None:
        self.log = place / f"node-{secrets.token_hex(2)}.log"
        common = [
            *("--num-cpus=1", "--node-ip-address=127.0.0.1", "--object-store-memory=78643200"),
            *("--include-log-monitor=false", "--disable-usage-stats", "--block"),
        ]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(BIN / "ray"), "start", *arguments, *common],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        wait_for(lambda: "Ray runtime started" in self.log.read_text(), "Ray node")

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=15)


def bare() -> dict[str, str]:
    """This process's variables without those of Ray, one thread a process."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    return {**kept, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a cluster of two nodes with one core each, and the environment to join it."""
    place = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))  # sockets allow only a short path
    environment = {
        **bare(),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    address = f"127.0.0.1:{free_port()}"
    nodes: list[Node] = []
    try:
        port = address.rpartition(":")[2]
        head = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={place}")
        nodes.append(Node(place, environment, *head))
        nodes.append(Node(place, environment, f"--address={address}"))
        yield address, environment
    finally:
        for node in reversed(nodes):
            node.stop()
        shutil.rmtree(place, ignore_errors=True)


def reprl(
    environment: dict[str, str], *arguments: str, cwd: Path | None = None
) -> subprocess.Popen[str]:
    """`reprl ...` with the Python that has Ray."""
    return subprocess.Popen(
        [str(BIN / "python"), "-m", "reprl", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=cwd,
    )
