"""The training loop: collect, update, and after each update log, validate and checkpoint.

`start` begins a run from a checked configuration; `resume` continues one exactly where its newest
checkpoint left it. Both end with the process's exit code.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.preprocessing import is_image_space

from reprl import __version__, checkpoint, components, crash
from reprl.algorithms import Diverged
from reprl.checkpoint.files import drop_beyond, recover, remove_leftovers
from reprl.components import blamed, described
from reprl.config.checks import check_ranks
from reprl.config.schema import Config
from reprl.disk import FULL, clear_drafts, out_of_space, remove_old
from reprl.distributed.environment import LOST, own_device, place, watched
from reprl.distributed.exchange import RankLost
from reprl.distributed.ranks import OneRank, Private, Ranks, join
from reprl.envs.defaults import LATER
from reprl.envs.observation import FrameStack
from reprl.envs.processes import WorkerLost
from reprl.errors import UserError
from reprl.precision import FP32
from reprl.rng import stream_seed
from reprl.runs.code import warnings_of
from reprl.runs.folder import RunFolder, create, now, open_run, where
from reprl.runs.loop import Follower, Reached, Session
from reprl.runs.metrics import rewind_csv
from reprl.runs.profiler import Profiler
from reprl.runs.signals import Interrupted, Interrupts
from reprl.runs.warm_start import branch
from reprl.runs.writers import rewind_tensorboard
from reprl.trust import folders as trust_folders
from reprl.trust import reading, require_named

if TYPE_CHECKING:
    from reprl.algorithms.base import Algorithm
    from reprl.envs import AtariVecEnv

FINISHED, ANEW = -2, -1  # what rank 0 says instead of a step
# of a checkpoint's meta: what goes on whatever the number of ranks
COMMON = (
    *("counters", "optimizer_scalars", "mask", "log", "compiled", "threads"),
    *("episodes", "successes"),
)


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
    """Train a new run; its folder appears only once everything has been built.

    In a rank other than 0 no folder is written, and the one that is returned is not there.
    """
    with blamed(python_path):
        callbacks = [*make_callbacks(config), *callbacks]
    ranks = join(config)
    with blamed(python_path):  # a shaping of the user's own
        env = make_env(config, ranks)
    try:
        with blamed(python_path):
            model = make_model(config, env, ranks)
        fill: Callable[[Path], Any] = model.prepare
        if config.parent is not None:
            branch(model, config, ranks)
            # what the parent was at this moment: it may go on, or be gone, when the run resumes
            step = model.num_timesteps
            extra |= {"step": step, "began_at": step}
            fill = partial(_fill, model, others=ranks.collect(model))
        if ranks.rank:
            return follow(Follower(config, model, ranks), callbacks), RunFolder(Path()), model
        folder = create(config, command=command, python_path=python_path, fill=fill, **extra)
        ranks.name_folder(str(folder.path))
        with folder.lock():
            model.attach(folder.path)
            session = Session(config, folder, model, ranks=ranks)
            return train(session, resumed=False, callbacks=callbacks), folder, model
    finally:
        env.close()


def _fill(model: Algorithm, folder: Path, *, others: Sequence[Private] = ()) -> None:
    model.prepare(folder)
    model.attach(folder)  # the first checkpoint names what the run learns from
    checkpoint.save(model, folder, others=others)


def resume(path: str, number: int | None = None) -> int:
    """Continue a run from its newest whole checkpoint, bit for bit.

    With another `number` of ranks than it had, the agent goes on in new games.
    """
    folder = open_run(path)
    config = resumed_config(folder, number)
    ranks = join(config)
    ranks.name_folder(str(folder.path))
    if ranks.rank:
        return resume_follower(folder, config, ranks)
    with folder.lock(), reading(folder.path):
        recover(folder.path)
        clear_leftovers(folder)
        saved = bool(checkpoint.steps(folder.path))
        if folder.record().get("status") == "finished":
            if saved:
                checkpoint.read(folder.path)  # says what is damaged
            print(f"{folder.path} is finished.")
            ranks.told(FINISHED)
            return 0
        require_unchanged(folder, config, saved=saved)
        say_version(folder.record())
        for warning in warnings_of(folder.record(), str(folder.path)):
            print(f"WARNING: {warning}", file=sys.stderr)
        stack = ExitStack()
        callbacks: list[BaseCallback] = []

        def rebuilt(stored: checkpoint.StoredCheckpoint | None) -> Session:
            stack.close()  # of a checkpoint that was of no use
            with blamed(trust_folders()):
                env = stack.enter_context(closing(make_env(config, ranks)))
                if stored is not None:
                    shown_as_saved(env, stored.meta)
                model = make_model(config, env)
                callbacks[:] = make_callbacks(config)
            if stored is None:
                model.attach(folder.path)
                return Session(config, folder, model, {}, ranks=ranks)
            checkpoint.require_same_shapes(model, stored)
            restore(model, stored, config, ranks)
            model.attach(folder.path)
            return Session(config, folder, model, stored.loop, ranks=ranks)

        with stack:
            session = checkpoint.use(folder.path, rebuilt) if saved else rebuilt(None)
            step = session.model.num_timesteps
            ranks.told(step if saved else ANEW)
            attach(session.model, config, ranks, begun=saved)
            note_ranks(folder, config, step)
            # of a step whose validation is still to come nothing has been written for good
            rewind(folder, step - session.pending)
            drop_beyond(folder.path, step)
            return train(session, resumed=True, callbacks=callbacks)


def resumed_config(folder: RunFolder, number: int | None) -> Config:
    """A run's configuration, with the number of ranks that goes on."""
    with reading(folder.path):
        config = folder.config()
    had = folder.record().get("ranks", config.ranks)
    wanted = number or (had if isinstance(had, int) else config.ranks)
    here = place()
    if here is not None and here.size > 1 and here.size != wanted:
        raise UserError(
            f"{folder.path} was trained by {wanted} ranks, and torchrun has started {here.size}: "
            f"start as many, or say ranks={here.size}."
        )
    config = replace(config, ranks=wanted)
    check_ranks(config)
    return config


def resume_follower(folder: RunFolder, config: Config, ranks: OneRank) -> int:
    """Another rank than 0 of a run that goes on: rank 0 says from which checkpoint."""
    step = ranks.told(0)
    if step == FINISHED:
        return 0
    with reading(folder.path), closing(make_env(config, ranks)) as env:
        stored = None if step == ANEW else checkpoint.read(folder.path, step)
        if stored is not None:
            shown_as_saved(env, stored.meta)
        with blamed(trust_folders()):
            model = make_model(config, env)
        session = Follower(config, model, ranks)
        if stored is not None:
            restore(model, stored, config, ranks)
            session.pending = bool(stored.loop.get("pending"))
        attach(model, config, ranks, begun=step != ANEW)
        return follow(session)


def shown_as_saved(env: AtariVecEnv, meta: dict[str, Any]) -> None:
    """Let a run go on with the frames it has: a coloured picture once counted as three of them."""
    shown = env.observation_space
    if isinstance(shown, FrameStack) and "channels" not in meta["observation_space"]:
        env.observation_space = spaces.Box(0, 255, shown.shape, np.uint8)


def restore(
    model: Algorithm, stored: checkpoint.StoredCheckpoint, config: Config, ranks: OneRank
) -> None:
    """Put this rank's part of a checkpoint into its model, or what all ranks have in common."""
    had = checkpoint.ranks_of(stored.meta)
    if had == config.ranks:
        model.restore(checkpoint.of_rank(stored, ranks.rank))
        return
    if model.keeps_data:
        raise UserError(
            f"ranks={config.ranks}: the data of this run is kept by {had} rank"
            f"{'s' if had > 1 else ''}, and {type(model).__name__} goes on with all of it: resume "
            f"with ranks={had}."
        )
    print(
        f"WARNING: this run was trained by {had} rank{'s' if had > 1 else ''} up to step "
        f"{stored.step:,} and goes on with {config.ranks}: it plays new games and draws other "
        "numbers than it would have.",
        file=sys.stderr,
    )
    fresh = model.capture()
    common = {key: stored.meta[key] for key in COMMON if key in stored.meta}
    model.restore(
        replace(
            fresh,
            parameters=stored.parameters,
            optimizer=stored.optimizer,
            meta=fresh.meta | common,
        )
    )
    names = ("ranks", config.ranks, "from", stored.step, ranks.rank)
    model.diverge(config.seed, *names)
    drawn = stream_seed(config.seed, *names)
    torch.manual_seed(drawn)
    np.random.seed(drawn % 2**32)  # SB3 draws minibatches from it
    assert model.env is not None
    model.env.seed(stream_seed(config.seed, "ranks", config.ranks, "from", stored.step) % 2**31)


def attach(model: Algorithm, config: Config, ranks: OneRank, *, begun: bool) -> None:
    """Let a model that was rebuilt train with the others; a new one also draws its own numbers."""
    if isinstance(ranks, Ranks):
        ranks.attach(model, None if begun else config.seed)
        ranks.require_equal(model)


def note_ranks(folder: RunFolder, config: Config, step: int) -> None:
    """Say in run.json where a run has changed its number of ranks."""
    record = folder.record()
    had = record.get("ranks", folder.config().ranks)
    if had != config.ranks:
        changes = [
            *record.get("ranks_changed", []),
            {"step": step, "from": had, "to": config.ranks},
        ]
        folder.update(ranks=config.ranks, ranks_changed=changes)


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
    step = folder.record().get("step")
    if not saved and isinstance(step, int) and step > 0:  # exported, or its checkpoints are gone
        raise UserError(
            f"{folder.path} has no checkpoint, and its record ends at step {step:,}: it can be "
            "reported, not resumed."
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
    if session.config.profile:
        callbacks = [*callbacks, Profiler(folder.path)]
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
    except RankLost as loss:
        stop_for_worker(folder, f"{session.ranks.explained(loss)}.")
        return LOST
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


def follow(session: Follower, callbacks: Sequence[BaseCallback] = ()) -> int:
    """Run the loop in a rank other than 0, which writes nothing and lets rank 0 speak."""
    try:
        with Interrupts() as interrupts:
            loop(session, interrupts, callbacks)
    except Interrupted as stop:
        return stop.exit_code
    except RankLost as loss:
        said = session.ranks.explained(loss)
        if not watched():  # where a launcher watches, it names the rank that was lost
            print(f"killed: rank {session.ranks.rank} ended: {said}.", file=sys.stderr)
        return LOST
    except (Diverged, WorkerLost) as error:
        print(f"rank {session.ranks.rank}: {error}", file=sys.stderr)
        return 1
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


def loop(
    session: Session | Follower, interrupts: Interrupts, callbacks: Sequence[BaseCallback] = ()
) -> None:
    """Collect and update until the steps are used up; look around after each update."""
    try:
        if session.pending:
            session.after_update(interrupts)
        _learn(session, interrupts, callbacks)
    except Reached as reached:
        assert isinstance(session, Session)
        session.progress.say(f"stopped early: {reached}")
        session.folder.update(stopped_early=str(reached))
    session.end()


def _learn(
    session: Session | Follower,
    interrupts: Interrupts,
    callbacks: Sequence[BaseCallback],
) -> None:
    model, config = session.model, session.config
    if model.num_timesteps < config.last_step:
        model.learn(
            config.total_steps - model.num_timesteps,
            callback=[AfterEachUpdate(session, interrupts), *callbacks],
            log_interval=None,  # type: ignore[arg-type]  # rows are written by the session
            reset_num_timesteps=model.num_timesteps == 0,
        )
        session.take_numbers()
        session.after_update(interrupts)


class AfterEachUpdate(BaseCallback):
    """SB3 calls back before each rollout, which is after each update but the last."""

    def __init__(self, session: Session | Follower, interrupts: Interrupts) -> None:
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


def make_env(config: Config, ranks: OneRank | None = None) -> AtariVecEnv:
    """The training environments of a run, or a rank's share of them."""
    from reprl.envs import make_vec_env

    e = config.env
    return make_vec_env(
        e.variant if e.curriculum is None else e.variants[0],
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
        **{key: getattr(e, key) for key in LATER},
        shaping=_shaping(config),
        share=(ranks.rank, ranks.size) if ranks is not None else (0, 1),
    )


def _shaping(config: Config) -> dict[str, Any] | None:
    """What makes a run's rewards, with the discount of the algorithm that learns from them."""
    from reprl.envs.shaping import with_discount

    if not config.shaping:
        return None
    return with_discount(config.shaping, config.algo.get("gamma"))


def make_model(config: Config, env: AtariVecEnv, ranks: OneRank | None = None) -> Algorithm:
    """The agent of a run, built from the same specs as in a script; with ranks, one of them."""
    torch.set_num_threads(config.threads)
    if torch.get_num_threads() != config.threads:
        raise UserError(
            f"threads={config.threads} cannot be set: torch uses {torch.get_num_threads()}."
        )
    with warnings.catch_warnings():
        if config.ranks > 1:  # SB3 compares the whole minibatch with this rank's environments
            warnings.filterwarnings("ignore", message="You have specified a mini-batch size")
        model: Algorithm = components.build(
            "algo",
            {"policy": policy_for(env), **config.algo},
            env=env,
            encoder=config.encoder or None,
            attention=config.attention or None,
            auxiliary=config.auxiliary or None,
            augmentation=config.augmentation or None,
            mode=config.mode,
            seed=config.seed,
            device=own_device(config.device),
            # a class of the user's own need not know of it
            **({} if config.precision == FP32 else {"precision": config.precision}),
            **({"intrinsic": config.intrinsic} if config.intrinsic else {}),
        )
    model.set_logger(Logger(None, []))
    if ranks is not None:
        attach(model, config, ranks, begun=False)
    return model


def policy_for(env: AtariVecEnv) -> str:
    """SB3's name of the policy for what environments show: pictures, or numbers."""
    return "CnnPolicy" if is_image_space(env.observation_space) else "MlpPolicy"


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
