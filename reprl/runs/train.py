"""The training loop: collect, update, and after each update log, validate and checkpoint.

`start` begins a run from a checked configuration; `resume` continues one exactly where its newest
checkpoint left it. Both end with the process's exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from reprl import __version__, checkpoint, components, crash
from reprl.algorithms import Diverged
from reprl.checkpoint.files import drop_beyond, recover, remove_leftovers
from reprl.components import blamed, described
from reprl.config.schema import Config
from reprl.disk import FULL, clear_drafts, out_of_space, remove_old
from reprl.envs.processes import WorkerLost
from reprl.errors import UserError
from reprl.runs.code import warnings_of
from reprl.runs.folder import RunFolder, create, now, open_run, where
from reprl.runs.loop import Session
from reprl.runs.metrics import rewind_csv
from reprl.runs.signals import Interrupted, Interrupts
from reprl.runs.warm_start import branch
from reprl.runs.writers import rewind_tensorboard
from reprl.trust import folders as trust_folders
from reprl.trust import reading, require_named

if TYPE_CHECKING:
    from reprl.algorithms.base import Algorithm
    from reprl.envs import AtariVecEnv


def start(config: Config, *, command: list[str], python_path: list[str], **extra: Any) -> int:
    """Train a new run and return the exit code of its end."""
    return run(config, command=command, python_path=python_path, **extra)[0]


def run(
    config: Config,
    *,
    command: list[str],
    python_path: list[str],
    callbacks: Sequence[BaseCallback] = (),
    **extra: Any,
) -> tuple[int, RunFolder, Algorithm]:
    """Train a new run; its folder appears only once everything has been built."""
    with blamed(python_path):
        callbacks = [*make_callbacks(config), *callbacks]
    env = make_env(config)
    try:
        with blamed(python_path):
            model = make_model(config, env)
        fill: Callable[[Path], Any] = model.prepare
        if config.parent is not None:
            branch(model, config)
            # what the parent was at this moment: it may go on, or be gone, when the run resumes
            step = model.num_timesteps
            extra |= {"step": step, "began_at": step}
            fill = partial(_fill, model)
        folder = create(config, command=command, python_path=python_path, fill=fill, **extra)
        with folder.lock():
            model.attach(folder.path)
            code = train(Session(config, folder, model), resumed=False, callbacks=callbacks)
            return code, folder, model
    finally:
        env.close()


def _fill(model: Algorithm, folder: Path) -> None:
    model.prepare(folder)
    model.attach(folder)  # the first checkpoint names what the run learns from
    checkpoint.save(model, folder)


def resume(path: str) -> int:
    """Continue a run from its newest whole checkpoint, bit for bit."""
    folder = open_run(path)
    with folder.lock(), reading(folder.path):
        config = folder.config()
        recover(folder.path)
        clear_leftovers(folder)
        saved = bool(checkpoint.steps(folder.path))
        if folder.record().get("status") == "finished":
            if saved:
                checkpoint.read(folder.path)  # says what is damaged
            print(f"{folder.path} is finished.")
            return 0
        require_unchanged(folder, config, saved=saved)
        say_version(folder.record())
        for warning in warnings_of(folder.record(), str(folder.path)):
            print(f"WARNING: {warning}", file=sys.stderr)
        stack = ExitStack()
        callbacks: list[BaseCallback] = []

        def rebuilt(stored: checkpoint.StoredCheckpoint | None) -> Session:
            stack.close()  # of a checkpoint that was of no use
            env = stack.enter_context(closing(make_env(config)))
            with blamed(trust_folders()):
                model = make_model(config, env)
                callbacks[:] = make_callbacks(config)
            if stored is None:
                model.attach(folder.path)
                return Session(config, folder, model, {})
            checkpoint.require_same_shapes(model, stored)
            model.restore(stored)
            model.attach(folder.path)
            return Session(config, folder, model, stored.loop)

        with stack:
            session = checkpoint.use(folder.path, rebuilt) if saved else rebuilt(None)
            step = session.model.num_timesteps
            # of a step whose validation is still to come nothing has been written for good
            rewind(folder, step - session.pending)
            drop_beyond(folder.path, step)
            return train(session, resumed=True, callbacks=callbacks)


def clear_leftovers(folder: RunFolder) -> None:
    """Remove what a killed process was writing; only the holder of the folder's lock writes it."""
    remove_leftovers(folder.path)
    for file in (folder.record_file, folder.metrics_file, folder.validation_file):
        clear_drafts(file, older_than=0.0)
    for draft in folder.tensorboard.glob(".events.out.tfevents.*.draft"):
        remove_old(draft, older_than=0.0)


def require_unchanged(folder: RunFolder, config: Config, *, saved: bool) -> None:
    """Refuse to go on as a run that is no longer the same."""
    began, now_is = folder.record().get("config_hash"), folder.config_hash()
    if began not in (None, now_is):
        raise UserError(
            f"{folder.config_file} was changed after the run began (its hash is {now_is}, run.json "
            f"says {began}): undo that, or begin a new run with parent={folder.path}."
        )
    if not saved and config.parent is not None:
        raise UserError(
            f"{folder.path} has lost the checkpoint it began with: train again with "
            f"parent={config.parent}."
        )


def say_version(record: dict[str, Any]) -> None:
    """Warn where another version of reprl goes on: its next numbers may be others."""
    versions = record.get("versions")
    began = versions.get("reprl") if isinstance(versions, dict) else None
    if began not in (None, __version__):
        print(
            f"WARNING: this run began with reprl {began} and goes on with {__version__}; "
            "CHANGELOG.md says what differs.",
            file=sys.stderr,
        )


def train(session: Session, *, resumed: bool, callbacks: Sequence[BaseCallback] = ()) -> int:
    """Run the loop to its end, a signal or a failure, and say which in run.json."""
    folder = session.folder
    again = {"resumed": now(), "step": session.model.num_timesteps} if resumed else {}
    folder.update(status="running", reason=None, **where(), **again)
    try:
        with Interrupts() as interrupts, session:
            session.launch(resumed=resumed)
            loop(session, interrupts, callbacks)
    except Interrupted as stop:
        folder.update(status="interrupted", reason=str(stop), ended=now())
        print(f"{stop}: `reprl resume {folder.path}` goes on from here.", file=sys.stderr)
        return stop.exit_code
    except Diverged as divergence:
        return fail(folder, f"diverged: {divergence}")
    except WorkerLost as loss:
        return stop_for_worker(folder, str(loss))
    except UserError as error:
        fail(folder, str(error))
        raise
    except Exception as error:
        if out_of_space(error):
            return stop_for_space(folder)
        return fail(folder, described(error), crash.sentence(error, [folder.path]))
    folder.update(status="finished", reason=None, ended=now())
    then = f"reprl evaluate {folder.path}"
    if not session.model.plays:
        then = f"reprl train parent={folder.path} parent.load=encoder"
    print(f"done: {folder.path}\nnext: {then}")
    return 0


def stop_for_worker(folder: RunFolder, reason: str) -> int:
    """End where a process of ours was killed, as a kill of this one would: the run can go on."""
    folder.update(status="killed", reason=reason, ended=now())
    print(f"killed: {reason} `reprl resume {folder.path}` goes on.", file=sys.stderr)
    return 1


def stop_for_space(folder: RunFolder) -> int:
    """End on a full disk, resumably; even the words may find no room."""
    with suppress(OSError):  # run.json then still says running: without a process, that resumes too
        folder.update(status="interrupted", reason=FULL, ended=now())
    with suppress(OSError):
        text = f"{FULL}: with some, `reprl resume {folder.path}` goes on."
        print(text, file=sys.stderr, flush=True)
    return 1


def loop(session: Session, interrupts: Interrupts, callbacks: Sequence[BaseCallback] = ()) -> None:
    """Collect and update until the steps are used up; look around after each update."""
    model, total = session.model, session.config.total_steps
    if session.pending:
        session.after_update(interrupts)
    if model.num_timesteps < total:
        model.learn(
            total - model.num_timesteps,
            callback=[AfterEachUpdate(session, interrupts), *callbacks],
            log_interval=None,  # type: ignore[arg-type]  # rows are written by the session
            reset_num_timesteps=model.num_timesteps == 0,
        )
        session.take_numbers()
        session.after_update(interrupts)


class AfterEachUpdate(BaseCallback):
    """SB3 calls back before each rollout, which is after each update but the last."""

    def __init__(self, session: Session, interrupts: Interrupts) -> None:
        super().__init__()
        self.session, self.interrupts = session, interrupts
        self.began = False

    def _on_rollout_start(self) -> None:
        started = perf_counter()
        if self.began:
            self.session.take_numbers()
            self.session.after_update(self.interrupts)
        self.began = True
        # SB3 calls from inside the rollout, whose clock must not count this
        self.session.model.timings.add("forward", started - perf_counter())

    def _on_step(self) -> bool:
        return True


def make_env(config: Config) -> AtariVecEnv:
    """The training environments of a run."""
    from reprl.envs import make_vec_env

    e = config.env
    return make_vec_env(
        e.variant,
        e.n_envs,
        config.seed,
        e.workers,
        game=e.game,
        severity=e.severity,
        sticky=e.sticky,
        stack=e.stack,
        gap=e.gap,
        size=e.size,
        noop_max=e.noop_max,
        max_frames=e.max_frames,
        reward=e.reward,
        background=e.background,
    )


def make_model(config: Config, env: AtariVecEnv) -> Algorithm:
    """The agent of a run, built from the same specs as in a script."""
    torch.set_num_threads(config.threads)
    if torch.get_num_threads() != config.threads:
        raise UserError(
            f"threads={config.threads} cannot be set: torch uses {torch.get_num_threads()}."
        )
    model: Algorithm = components.build(
        "algo",
        {"policy": "CnnPolicy", **config.algo},
        env=env,
        encoder=config.encoder or None,
        attention=config.attention or None,
        auxiliary=config.auxiliary or None,
        augmentation=config.augmentation or None,
        mode=config.mode,
        seed=config.seed,
        device=config.device,
    )
    model.set_logger(Logger(None, []))
    return model


def make_callbacks(config: Config) -> list[BaseCallback]:
    """The callbacks of a run; what they remember is their own, and not in a checkpoint."""
    found = []
    for spec in (config.callbacks or {}).values():
        path = str(spec["_target_"])
        module = path.partition(":")[0] if ":" in path else path.rpartition(".")[0]
        require_named(module, path)
        found.append(components.build("callbacks", spec))
    return found


def rewind(folder: RunFolder, step: int) -> None:
    """Drop everything the run wrote beyond a step: it will write it again, identically."""
    rewind_csv(folder.metrics_file, step)
    rewind_csv(folder.validation_file, step)
    rewind_tensorboard(folder.tensorboard, step)


def fail(folder: RunFolder, reason: str, said: str | None = None) -> int:
    """Record a failure, and say from where the run can be looked at again."""
    folder.update(status="failed", reason=reason, ended=now())
    print(f"failed: {said or reason}", file=sys.stderr)
    if steps := checkpoint.steps(folder.path):
        print(f"the checkpoint before it: parent={folder.path}@{steps[-1]}", file=sys.stderr)
    return 1
