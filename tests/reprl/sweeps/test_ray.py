"""Sweeps on a real Ray cluster: two nodes on loopback, a job killed and retried, bad addresses.

Ray lives in an environment of its own, which `make setup-ray` makes; `make test-ray` runs this.
"""

import os
import re
import secrets
import signal
import socket
import subprocess
import time

from reprl import checkpoint
from tests.ray_nodes import BIN, NEEDS_RAY, cluster, free_port
from tests.reprl.sweeps.test_slurm import TINY, attempts, finish, parent_of, record, start, wait_for

LAST = "000000001600"
__all__ = ["cluster"]  # pytest finds the fixture by its name

pytestmark = NEEDS_RAY


def sweep_on(address: str, environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    where = ["hydra/launcher=ray", f"hydra.launcher.ray.init.address={address}"]
    given = {argument.partition("=")[0] for argument in arguments}
    tiny = [setting for setting in TINY if setting.partition("=")[0] not in given]  # no key twice
    return subprocess.Popen(
        [str(BIN / "python"), "-m", "reprl", "train", "-m", *tiny, *arguments, *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def test_jobs_run_on_both_nodes_and_a_killed_one_goes_on_from_its_checkpoint(cluster, tmp_path):
    sweep = tmp_path / "sweep"
    arguments = ["seed=0,1,2,3", "checkpoint.every=320", f"run_dir={sweep}"]
    process = sweep_on(*cluster, *arguments)
    killed = wait_for(
        lambda: next((run for run in sweep.glob("000*") if checkpoint.steps(run)), None),
        "checkpoint",
    )
    training = record(killed)["pid"]
    worker = parent_of(training)
    os.kill(worker, signal.SIGKILL)  # Ray starts the job again
    os.kill(training, signal.SIGKILL)  # nothing is saved on the way out
    code, output = finish(process)
    assert code == 0, output + (sweep / "logs" / "launcher.log").read_text()
    print(output)
    runs = sorted(f.parent for f in sweep.glob("0*/run.json"))
    assert len(runs) == 4
    nodes = {run.name[:3]: attempts(sweep, run)[-2]["where"] for run in runs}
    print(nodes)
    assert len({node.split()[1] for node in nodes.values()}) == 2
    first, again, done = attempts(sweep, killed)
    assert first["step"] == 0
    assert 0 < again["step"] < done["step"] == 1600  # what was saved was not done again
    assert again["step"] % 320 == 0
    print(
        f"{killed.name}: killed on {first['where']}, from step {again['step']} on {again['where']}"
    )
    for run in runs:
        steps = [n["step"] for n in attempts(sweep, run)]
        assert run == killed or steps == [0, 1600]  # done once
    straight = tmp_path / "straight"
    settings = ["seed=0", "threads=1", "env.workers=0", "checkpoint.every=320"]
    code, output = finish(start(*settings, f"run_dir={straight}"))
    assert code == 0, output
    for file in checkpoint.FILES:
        ends = [run / "checkpoints" / LAST / file for run in (killed, straight)]
        assert ends[0].read_bytes() == ends[1].read_bytes(), file
    code, output = finish(sweep_on(*cluster, *arguments))  # all is done: nothing starts
    assert code == 0, output
    assert len(attempts(sweep, killed)) == 3


def test_a_cluster_that_cannot_be_joined_is_one_sentence_within_seconds(cluster, tmp_path):
    address, environment = cluster
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        cases = {
            f"127.0.0.1:{free_port()}": (environment, "no Ray cluster answers at .*refused"),
            f"127.0.0.1:{silent.getsockname()[1]}": (environment, "Ray cluster"),
            address: ({**environment, "RAY_AUTH_TOKEN": secrets.token_hex(32)}, "Ray cluster|ray"),
        }
        for place, (variables, sentence) in cases.items():
            began = time.monotonic()
            process = sweep_on(place, variables, "seed=0,1", f"run_dir={tmp_path / 'sweep'}")
            code, output = finish(process)
            print(round(time.monotonic() - began, 1), output)
            assert code == 2, output
            assert "Traceback" not in output
            said = [line for line in output.splitlines() if line.startswith("reprl: ")]
            assert len(said) == 1
            assert re.search(sentence, said[0])
    assert not list((tmp_path / "sweep").glob("0*"))
