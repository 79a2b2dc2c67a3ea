"""Worker processes: their answers stay in order, and what breaks or hangs is named and ended."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from reprl.envs import WorkerError, make_vec_env
from reprl.envs.processes import Workers
from reprl.envs.variation import Part, Variant
from reprl.envs.vector import AtariVecEnv
from reprl.envs.worker import CALL
from tests.helpers import refuses

pytestmark = pytest.mark.slow  # starts processes


PATIENCE = 300.0  # far longer than any machine needs for what must not wait for it


@pytest.fixture(scope="module", autouse=True)
def _patient():
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("usual_patience", "start_patience"):
            patch.setattr(Workers, kind, PATIENCE)
        yield


@pytest.fixture(scope="module")
def pong():
    env = make_vec_env(n_envs=2, game="boxing", workers=2)
    env.reset()
    yield env
    env.close()


def steps_like_one_process(env, count=5):
    """Reset both, step both; whether every observation is the same."""
    other = make_vec_env(n_envs=2, game="boxing")
    env.seed(8), other.seed(8)
    same = [np.array_equal(env.reset(), other.reset())]
    for _ in range(count):
        same.append(np.array_equal(env.step(np.array([2, 3]))[0], other.step(np.array([2, 3]))[0]))
    return all(same)


def test_after_a_refusal_every_answer_belongs_to_its_question(pong):
    for _ in range(2):
        with refuses("breakout", "'boxing'"):
            pong.objects()
    assert steps_like_one_process(pong)


def test_a_missing_attribute_is_no_reason_to_stop(pong):
    for env in (pong, make_vec_env(n_envs=1)):
        assert env.has_attr("index")
        assert not env.has_attr("nothing_like_it")
        with pytest.raises(AttributeError, match="no_such_method"):
            env.env_method("no_such_method")
    assert steps_like_one_process(pong, count=1)


def test_what_cannot_be_sent_is_no_reason_to_stop(pong):
    with refuses("workers=0"):
        pong.get_attr("ale")
    assert steps_like_one_process(pong, count=1)


def test_workers_leave_signals_to_the_group_to_their_parent(pong):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR2):
        for pid in processes_of(pong):
            os.kill(pid, number)
    assert steps_like_one_process(pong)


def test_a_worker_survives_signals_while_it_starts():
    env = make_vec_env(n_envs=1, workers=1)  # does not wait for it
    os.kill(processes_of(env)[0], signal.SIGTERM)
    assert env.reset().any()
    env.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_is_asked_between_the_halves_of_a_step(workers, pong):
    env = pong if workers else make_vec_env(n_envs=2, game="boxing")
    env.reset()
    with refuses("step_async"):
        env.step_wait()
    env.step_async(np.zeros(2, int))
    for ask in (env.reset, env.frames, env.snapshot, lambda: env.step(np.zeros(2, int))):
        with refuses("step_wait"):
            ask()
    assert env.step_wait()[0].shape == (2, 4, 84, 84)
    assert env.frames().shape == (2, 210, 160, 3)


class Alarm(BaseException):
    """What Ctrl-C would be."""


def test_an_interrupted_step_closes_the_environment():
    env = make_vec_env(n_envs=2, workers=2)
    env.reset()
    pids = processes_of(env)
    os.kill(pids[1], signal.SIGSTOP)  # so that the step cannot end

    def ring(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Alarm):
            env.step(np.zeros(2, int))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not any(map(alive, pids))
    with refuses("closed", error=WorkerError):
        env.step(np.zeros(2, int))


@pytest.mark.parametrize("way", ["to it", "from it"])
def test_a_worker_that_hangs_within_a_long_message_is_named(way):
    env = make_vec_env("noise", n_envs=8, workers=1)
    env.reset()
    snapshot = env.snapshot()
    env.workers.patience = 1.0
    assert len(snapshot) > 400_000  # more than a socket holds
    (pid,) = processes_of(env)
    if way == "from it":
        env.workers._ask({0: CALL + pickle.dumps(("snapshot", [(i,) for i in range(8)]))})
        assert env.workers._connections[0].poll(20)
    os.kill(pid, signal.SIGSTOP)
    with refuses("worker 0 ", "1 s", error=WorkerError):
        env.workers._answers() if way == "from it" else env.restore(snapshot)
    env.close()
    assert not alive(pid)


def test_closing_does_not_wait_for_a_hung_worker():
    env = make_vec_env(n_envs=2, workers=2)
    env.reset()
    pids = processes_of(env)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    env.workers._connections[0].send_bytes(b"x" * 100_000)  # its socket is nearly full
    started = time.time()
    env.close()
    assert time.time() - started < PATIENCE / 2
    assert not any(map(alive, pids))


def processes_of(env) -> list[int]:
    return [p.pid for p in env.workers._processes]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_killed_worker_is_named_and_the_rest_is_cleaned_up():
    env = make_vec_env(n_envs=4, workers=2)
    env.reset()
    pids = processes_of(env)
    os.kill(pids[1], signal.SIGKILL)
    started = time.time()
    with refuses("worker 1 ", "2 to 3", "SIGKILL", error=WorkerError):
        env.step(np.zeros(4, int))
    assert time.time() - started < PATIENCE / 2
    assert not any(map(alive, pids))
    env.close()


def test_a_hung_worker_is_named():
    env = make_vec_env(n_envs=2, workers=2)
    env.reset()
    env.workers.patience = 1.0
    pids = processes_of(env)
    os.kill(pids[0], signal.SIGSTOP)
    with refuses("worker 0 ", "0 to 0", "1 s", error=WorkerError):
        env.step(np.zeros(2, int))
    assert not any(map(alive, pids))


def test_a_worker_that_dies_while_it_starts_is_named_by_the_first_question():
    env = make_vec_env(n_envs=4, workers=2)  # does not wait for them
    pids = processes_of(env)
    os.kill(pids[0], signal.SIGKILL)
    with refuses("worker 0 ", "0 to 1", "SIGKILL", error=WorkerError):
        env.reset()
    assert not any(map(alive, pids))


def test_a_refusal_while_workers_start_closes_them():
    settings = make_vec_env(n_envs=1).settings
    broken = Variant("broken", "custom", effects=(Part("reprl.no_such_module:Thing", {}),))
    env = AtariVecEnv(settings, [broken, broken], seed=0, workers=2)
    pids = processes_of(env)
    with refuses("no_such_module"):
        env.reset()
    assert not any(map(alive, pids))


def test_an_exception_in_a_worker_comes_through():
    env = make_vec_env(n_envs=2, workers=1)
    env.reset()
    with pytest.raises(WorkerError, match=r"worker 0 .*raised:(.|\n)*IndexError"):
        env.env_method("step", 99)


def test_a_killed_parent_leaves_nothing_behind():
    code = (
        "from reprl.envs import make_vec_env; import time, os\n"
        "env = make_vec_env(n_envs=2, workers=2); env.reset()\n"
        "print(*[p.pid for p in env.workers._processes], flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(p) for p in parent.stdout.readline().split()]
    assert all(map(alive, pids))
    maps = [Path(f"/proc/{pid}/maps").read_text() for pid in pids]
    assert all("memfd:reprl" in text and "/dev/shm" not in text for text in maps)  # no name to leak
    parent.kill()
    parent.wait()
    deadline = time.time() + PATIENCE
    while any(map(alive, pids)):
        assert time.time() < deadline
        time.sleep(0.05)
