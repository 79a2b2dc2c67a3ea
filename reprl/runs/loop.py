"""What happens around the updates of one run: numbers, rows, validation, checkpoints, the view."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from reprl import checkpoint
from reprl.components import described
from reprl.config.schema import Config
from reprl.disk import out_of_space
from reprl.distributed.ranks import OneRank
from reprl.envs.defaults import GYMNASIUM
from reprl.envs.gymnasium_ids import sees_pictures
from reprl.errors import UserError
from reprl.escaping import cell
from reprl.rng import stream_seed
from reprl.runs.curriculum import Curriculum
from reprl.runs.diff import differences, previous
from reprl.runs.folder import RunFolder
from reprl.runs.logbook import identity_of
from reprl.runs.media import MediaSink
from reprl.runs.metrics import Averages, CsvSink, Sink
from reprl.runs.progress import TIMED, Progress, ProgressState, alarms, number
from reprl.runs.resources import peak_memory
from reprl.runs.signals import Interrupted, Interrupts
from reprl.runs.writers import TensorBoardSink, WandbSink
from reprl.schema import ELAPSED, VALIDATION
from reprl.tables import read_rows

if TYPE_CHECKING:
    from reprl.algorithms.base import Algorithm

STALE = 5.0  # seconds after which the speed of the last row is no longer shown


class Reached(Exception):
    """What stop.score or stop.step asks for is reached; its checkpoint is written."""


class Session:
    """One process's stretch of a run; `state` is what a checkpoint carries to the next one."""

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        model: Algorithm,
        state: dict[str, Any] | None = None,
        *,
        ranks: OneRank | None = None,
    ) -> None:
        state = state or {}
        self.ranks = ranks or OneRank()
        self.config, self.folder, self.model = config, folder, model
        self.averages = Averages(state.get("averages"))
        self.best: dict[str, float] | None = state.get("best")
        self.pending = bool(state.get("pending"))  # a signal came before this step's validation
        self.curriculum = Curriculum.of(config, model.num_timesteps, state.get("curriculum"))
        if self.curriculum is not None:
            self.curriculum.apply(model)
        self.sinks: list[Sink] = []
        self.shows: list[MediaSink] = []  # those of them that take pictures too
        self.stack = ExitStack()
        self.games_played = (0.0, 0.0, 0.0)  # of all ranks: number, summed score, summed length

    def __enter__(self) -> Session:
        self.rows = CsvSink(self.folder.metrics_file)
        self.games = CsvSink(self.folder.validation_file)
        board = TensorBoardSink(self.folder.tensorboard, hparams=self.config.hparams())
        self.sinks, self.shows = [self.rows, board], [board]
        if self.config.wandb != "off":
            wandb = self._wandb()
            self.sinks.append(wandb)
            self.shows.append(wandb)
        self.progress = Progress(
            self.folder.path.name, mode=self.config.progress, at_work=self._at_work
        )
        earlier = read_rows(self.folder.metrics_file)
        self.elapsed = float(earlier[-1].get(ELAPSED) or 0.0) if earlier else 0.0
        self.clock = self.began = time.perf_counter()
        self.clocked_step = self.model.num_timesteps
        self.clocked = dict(self.model.timings)
        self.stack.enter_context(self.progress)  # last: its thread asks for all of the above
        return self

    def __exit__(self, *_: Any) -> None:
        self.stack.close()
        for sink in self.sinks:
            sink.close()

    def launch(self, *, resumed: bool) -> None:
        """Say what is about to run, what is unusual in it and how it differs from the last."""
        if resumed:
            self.progress.say(f"going on from step {self.model.num_timesteps:,}")
            return
        self.progress.say(f"{self.folder.path}")
        if getattr(self.model, "compile", False):
            self.progress.say(f"compiling ... (kept in {compiled_code()} for the next run)")
        for warning in self.config.warnings():
            print(f"WARNING: {warning}", file=sys.stderr)
        before, changed = None, []
        if self.config.progress != "off":
            with suppress(UserError):  # a damaged neighbour is no reason to stop
                before = previous(self.folder)
                changed = differences(before, self.folder) if before else []
        if before and changed:
            table = Table(
                "key", "before", "now", title=f"against {cell(before.path.name)}", box=None
            )
            for key, old, new in changed:
                table.add_row(*map(cell, (key, old, new)))
            self.progress.console.print(table)

    def take_numbers(self) -> None:
        """Take what the update logged."""
        logger = self.model.logger
        self.averages.add(logger.name_to_value)
        for numbers in (logger.name_to_value, logger.name_to_count, logger.name_to_excluded):
            numbers.clear()

    def end(self) -> None:
        """Say what the run took of the machine's memory."""
        most = self.ranks.most(peak_memory()) / 2**20
        each = "in each rank, at most" if self.ranks.size > 1 else "at most"
        self.progress.say(f"memory: {most:,.0f} MB {each}")

    def after_update(self, interrupts: Interrupts) -> None:
        """Validate, write a row and checkpoint where due; stop here if a signal came."""
        config, step = self.config, self.model.num_timesteps
        reached = self._reached()
        last = step >= config.last_step or reached
        self.games_played = self.ranks.episodes(totals(self.model))
        scores: dict[str, float] = {}
        if config.eval.every and (last or self._crosses(config.eval.every)):
            scores = self._validate(interrupts)
            self.pending = not scores
        improved = bool(scores) and self._improves(scores["validation/score"])
        if scores:
            scores |= self._watch_mask()
        row = bool(scores) or last or self._crosses(config.log.every)
        if row and not self.pending:
            self._write_row(scores)
        if scores:
            self._show_media()
        self._show(row=row)
        if self.curriculum is not None and not self.pending and self.curriculum.advance(self.model):
            env: Any = self.model.env
            now = f"{self.curriculum.stage + 1} of the curriculum: {env.variants[0].name}"
            self.progress.say(f"step {step:,}, stage {now}")
        due = last or improved or self._crosses(config.checkpoint.every)
        agreed = self.ranks.agree(due or interrupts(), interrupts.number or 0, self.pending)
        if agreed.save:
            self.save()
        number = agreed.signal if self.ranks.size > 1 else interrupts.number
        if number and not (last and not agreed.pending):
            raise Interrupted(number)
        if self.pending or step >= config.total_steps:
            return
        if reached:
            raise Reached(
                f"the mean score of the last {config.stop.games} games is {self._recent():.4g}, "
                f"which stop.score={config.stop.score:g} asked for"
            )
        if last:
            raise Reached(f"stop.step={config.stop.step} asked for no more than step {step:,}")

    def _recent(self) -> float:
        """The mean score of the last stop.games games, NaN before there are so many."""
        wanted = self.config.stop.games
        games = [episode["r"] for episode in self.model.ep_info_buffer or []][-wanted:]
        return float(np.mean(games)) if len(games) == wanted else float("nan")

    def _reached(self) -> bool:
        """Whether training has come as far as stop.score wants."""
        wanted = self.config.stop.score
        return wanted is not None and self._recent() >= wanted

    def save(self) -> None:
        """Checkpoint, with the open averages and the best score."""
        state = {"averages": self.averages.state(), "best": self.best, "pending": self.pending}
        if self.curriculum is not None:
            state["curriculum"] = self.curriculum.state()
        protect = (int(self.best["step"]),) if self.best else ()
        checkpoint.save(
            self.model,
            self.folder.path,
            keep=self.config.checkpoint.keep,
            protect=protect,
            loop=state,
            others=self.ranks.collect(self.model),
        )
        self.folder.update(step=self.model.num_timesteps, score=self._score(), best=self.best)
        self.ranks.meet()  # the others were faster

    def _crosses(self, every: int) -> bool:
        # a function of the step alone, so that an interrupted run does the same things
        step = self.model.num_timesteps
        return step // every > (step - self.model.steps_per_update) // every

    def _validate(self, interrupts: Interrupts) -> dict[str, float]:
        """Play and keep the validation games; their mean scores, none if a signal came first."""
        from reprl.evaluation import FRAME_LIMIT, evaluate_model, mean_scores

        config, step = self.config, self.model.num_timesteps
        count = config.eval.episodes * len(config.eval.variants)
        self.progress.say(f"validating at step {step:,}: {count} games")
        games = evaluate_model(
            self.model,
            config.eval.variants,
            config.eval.episodes,
            stream_seed(config.seed, "validation"),
            stopped=interrupts,
            sticky=config.env.sticky,
            frame_limit=min(config.env.max_frames, FRAME_LIMIT),
        )
        if games is None:
            return {}
        rows = games[list(VALIDATION)].to_dict("records")
        self.games.write_rows({"step": step} | {str(k): v for k, v in r.items()} for r in rows)
        return mean_scores(games)

    def _watch_mask(self) -> dict[str, float]:
        """How well the agent's mask points at the objects of the validation variants."""
        if self.config.env.game.startswith(GYMNASIUM):
            return {}  # nobody says what is where
        from reprl.analysis.attention.watch import watch_mask

        seed = stream_seed(self.config.seed, "validation") % 2**31
        return watch_mask(self.model, self.config.eval.variants, seed)

    def _show_media(self) -> None:
        """A film of the agent and where it looks in it; a failure costs the pictures, no more."""
        game = self.config.env.game
        if not self.config.media or (game.startswith(GYMNASIUM) and not sees_pictures(game)):
            return
        from reprl.analysis.attention.glimpse import glimpse

        seed = stream_seed(self.config.seed, "media") % 2**31
        variants = self.config.eval.variants[:2]
        try:
            media = glimpse(self.model, variants, steps=self.config.media, seed=seed)
        except Exception as error:
            if out_of_space(error):
                raise
            print(f"WARNING: no pictures of this step: {described(error)}", file=sys.stderr)
            return
        for sink in self.shows:
            sink.show(self.model.num_timesteps, media)

    def _improves(self, score: float) -> bool:
        """Whether a validation score is the best so far."""
        if self.best is not None and score <= self.best["score"]:
            return False
        self.best = {"step": self.model.num_timesteps, "score": score}
        return True

    def _write_row(self, scores: dict[str, float]) -> None:
        row = self.averages.take()
        row |= {"rollout/score": self._score(), "rollout/length": self._episode_mean("l")}
        if self.curriculum is not None:
            row |= {"curriculum/stage": self.curriculum.stage}
            row |= {"curriculum/variant": self.curriculum.place}
        row |= scores
        self._moment = self._measure(row)
        row |= {
            "time/elapsed": self.elapsed + time.perf_counter() - self.began,
            "time/steps_per_second": self._moment.speed,
        }
        row |= {f"time/{part}": share for part, share in self._moment.shares.items()}
        for sink in self.sinks:
            sink.write(self.model.num_timesteps, row)

    def _measure(self, values: dict[str, float]) -> ProgressState:
        """Speed and shares of the time since the last row."""
        now, step, timings = time.perf_counter(), self.model.num_timesteps, self.model.timings
        wall = max(now - self.clock, 1e-9)
        shares = {p: (timings[p] - self.clocked[p]) / wall for p in TIMED if p != "other"}
        shares["other"] = max(0.0, 1.0 - sum(shares.values()))
        speed = (step - self.clocked_step) / wall
        self.clock, self.clocked_step, self.clocked = now, step, dict(timings)
        progress = step / self.config.total_steps
        actions = int(getattr(self.model.action_space, "n", 0))  # none where they are continuous
        warnings = alarms(values, actions, progress)
        return ProgressState(step, self.config.last_step, speed, shares, values, warnings)

    def _show(self, *, row: bool) -> None:
        moment = getattr(self, "_moment", None) or self._early_moment()
        moment.step = self.model.num_timesteps
        wall = time.perf_counter() - self.clock
        if not row and wall > STALE:  # the last row may be of other times, before the first update
            moment.speed = (moment.step - self.clocked_step) / wall
        self.progress.show(moment, row=row)

    def _at_work(self) -> str:
        """What is known while a rollout or an update lasts; asked from another thread."""
        step = self.model.num_timesteps
        facts = [f"step {step:,}/{self.config.last_step:,}"]
        if step > self.clocked_step:
            wall = max(time.perf_counter() - self.clock, 1e-9)
            facts.append(f"{(step - self.clocked_step) / wall:.0f} steps/s")
        with suppress(RuntimeError):  # a game ended in this very moment
            if (score := self._score()) == score:
                facts.append(f"score {number(score)}")
        return " | ".join([*facts, "training"])

    def _early_moment(self) -> ProgressState:
        wall = max(time.perf_counter() - self.clock, 1e-9)
        speed = (self.model.num_timesteps - self.clocked_step) / wall
        values = self.averages.means() | {"rollout/score": self._score()}
        return ProgressState(total=self.config.last_step, speed=speed, values=values)

    def _score(self) -> float:
        """Mean raw score of the last games, NaN before the first has ended."""
        return self._episode_mean("r")

    def _episode_mean(self, key: str) -> float:
        if self.ranks.size > 1:
            number, scores, lengths = self.games_played
            return {"r": scores, "l": lengths}[key] / number if number else float("nan")
        episodes = list(self.model.ep_info_buffer or [])
        return float(np.mean([e[key] for e in episodes])) if episodes else float("nan")

    def _wandb(self) -> WandbSink:
        record = self.folder.record()
        tags = [str(name) for name in self.config.choices.values() if name and name != "none"]
        settings = {
            "config": self.config.plain(),
            "name": self.folder.path.name,
            "group": record.get("sweep") or record.get("experiment") or self.config.method,
            "tags": sorted(set(tags)),
        }
        identity = str(record.get("id") or self.folder.path.name)
        if record.get("wandb"):  # a resumed run goes on as the one it was
            identity, settings["project"] = identity_of(record, self.folder.path.name)
        sink = WandbSink(
            self.folder.path, mode=self.config.wandb, identity=identity, settings=settings
        )
        # what evaluate, attention and report find the run by
        self.folder.update(wandb={key: sink.arguments[key] for key in ("id", "project")})
        return sink


def compiled_code() -> str:
    """Where torch keeps what it has compiled."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return str(cache_dir())


class Follower:
    """What a rank other than 0 does around its updates: agree, hand over its state, stop."""

    def __init__(self, config: Config, model: Algorithm, ranks: OneRank) -> None:
        self.config, self.model, self.ranks = config, model, ranks
        self.pending = False  # rank 0 has a validation to play first

    def take_numbers(self) -> None:
        """Forget what the update logged: rank 0 has the same numbers."""
        logger = self.model.logger
        for numbers in (logger.name_to_value, logger.name_to_count, logger.name_to_excluded):
            numbers.clear()

    def end(self) -> None:
        """Say to rank 0 what this one took of the machine's memory."""
        self.ranks.most(peak_memory())

    def after_update(self, interrupts: Interrupts) -> None:
        """Do what the ranks agree on; the cadence is rank 0's."""
        self.ranks.episodes(totals(self.model))
        agreed = self.ranks.agree(False, interrupts.number or 0, False)
        if agreed.save:
            self.ranks.collect(self.model)
            self.ranks.meet()
        last = self.model.num_timesteps >= self.config.total_steps
        if agreed.signal and not (last and not agreed.pending):
            raise Interrupted(agreed.signal)


def totals(model: Algorithm) -> tuple[float, float, float]:
    """Number, summed score and summed length of the last games."""
    games = list(model.ep_info_buffer or [])
    return float(len(games)), float(sum(g["r"] for g in games)), float(sum(g["l"] for g in games))
