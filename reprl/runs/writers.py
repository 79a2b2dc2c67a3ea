"""Where rows of metrics go besides the CSV file: TensorBoard and wandb.

Neither may stop or slow training: TensorBoard writes to the disk from its own thread, wandb lives
behind a queue whose failures are reported once and then ignored.
"""

from __future__ import annotations

import math
import netrc
import os
import queue
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from reprl.disk import out_of_space
from reprl.errors import UserError
from reprl.runs.media import (
    LoggedFiles,
    LoggedFilm,
    LoggedHistogram,
    LoggedPicture,
    LoggedTable,
    Medium,
    gif,
)

PATIENCE = 30.0  # seconds that wandb gets to finish at the end of a run
HPARAM_METRICS = ("rollout/score", "validation/score")
# SB3's name of a number -> ours
STOCK = {
    "rollout/ep_rew_mean": "rollout/score",
    "rollout/ep_len_mean": "rollout/length",
    "time/fps": "time/steps_per_second",
    "time/time_elapsed": "time/elapsed",
}
_hanging: list[str] = []  # services that would also hang the end of this process


def leave(code: int) -> int:
    """A process's exit code; where a service still hangs, the process ends here and now.

    At the end of a process wandb waits for its service once more, and for ever if it is stopped.
    """
    if _hanging:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    return code


def leave_to_the_writer() -> None:
    """TensorBoard's thread prints no traceback: its writer raises the error at its next use."""
    printed = threading.excepthook

    def hook(failed: threading.ExceptHookArgs) -> None:
        if not type(failed.thread).__module__.startswith("tensorboard."):
            printed(failed)

    hook.leaves = True  # type: ignore[attr-defined]
    if not getattr(printed, "leaves", False):
        threading.excepthook = hook


class TensorBoardSink:
    """Scalars as TensorBoard events; the sub-second wall clock is TensorBoard's own.

    Where they cannot be written, training goes on without them, but for a full disk: it stops.
    """

    def __init__(self, folder: Path, *, hparams: Mapping[str, Any] | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        began = any(folder.glob("events.out.tfevents.*"))
        leave_to_the_writer()
        self.writer = SummaryWriter(str(folder))
        self.lost: str | None = None
        if hparams and not began:  # a resumed run has them already
            with self._losing():
                self._write_hparams(hparams)

    def write(self, step: int, row: Mapping[str, float]) -> None:
        if self.lost is not None:
            return
        with self._losing():
            for name, value in (dict(row) | stock_tags(step, row)).items():
                if isinstance(value, int | float) and math.isfinite(value):
                    self.writer.add_scalar(name, value, step)
            self.writer.flush()

    def show(self, step: int, media: Mapping[str, Medium]) -> None:
        if self.lost is not None:
            return
        with self._losing():
            for name, medium in media.items():
                self._show(name, medium, step)
            self.writer.flush()

    def _show(self, name: str, medium: Medium, step: int) -> None:
        if isinstance(medium, LoggedPicture):
            self.writer.add_image(name, medium.pixels, step, dataformats="HWC")
        elif isinstance(medium, LoggedHistogram):
            self.writer.add_histogram(name, medium.values, step)
        elif isinstance(medium, LoggedTable):
            self.writer.add_text(name, markdown(medium), step)
        elif isinstance(medium, LoggedFilm):
            from tensorboard.compat.proto.summary_pb2 import Summary

            # what add_video writes, without moviepy, which pins an old Pillow
            _, height, width, _ = medium.frames.shape
            picture = Summary.Image(
                height=height,
                width=width,
                colorspace=3,
                encoded_image_string=gif(medium.frames, medium.fps),
            )
            summary = Summary(value=[Summary.Value(tag=name, image=picture)])
            self._events().add_summary(summary, step)

    def _events(self) -> Any:
        """The event file, of which torch's types say that it is never open."""
        return self.writer.file_writer

    def _write_hparams(self, hparams: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard.summary import hparams as summaries

        plain = {k: v if isinstance(v, int | float) else str(v) for k, v in hparams.items()}
        begin, start, _ = summaries(plain, dict.fromkeys(HPARAM_METRICS, 0.0))
        for summary in (begin, start):
            self._events().add_summary(summary, 0)
        self.writer.flush()

    def close(self) -> None:
        if self.lost is None:
            with self._losing():
                self.writer.close()

    @contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # its writing thread's, of whatever file system
            if out_of_space(error):
                raise
            self.lost = f"{type(error).__name__}: {error}"
            _warn("TensorBoard", self.lost)


def stock_tags(step: int, row: Mapping[str, float]) -> dict[str, float]:
    """A row's numbers by the names that stock SB3 gives them; the losses have them already."""
    same = {name: row[ours] for name, ours in STOCK.items() if ours in row}
    return same | ({"time/total_timesteps": float(step)} if same else {})


def markdown(table: LoggedTable) -> str:
    """A table as TensorBoard's text shows it."""
    lines = [list(table.columns), ["---"] * len(table.columns), *table.rows]
    cells = [[f"{c:.4g}" if isinstance(c, float) else str(c) for c in line] for line in lines]
    return "\n".join("| " + " | ".join(c.replace("|", "/") for c in line) + " |" for line in cells)


def rewind_tensorboard(folder: Path, step: int) -> None:
    """Rewrite the event files without what lies beyond a step, so that no point appears twice."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    for path in sorted(folder.glob("events.out.tfevents.*")):
        draft = path.with_name(f".{path.name}.draft")
        kept = 0
        with open(draft, "wb") as file:
            writer = RecordWriter(file)
            for raw in RawEventFileLoader(str(path)).Load():
                event = Event.FromString(raw)
                if event.step <= step:
                    writer.write(raw)
                    kept += event.HasField("summary")
            writer.flush()
            os.fsync(file.fileno())
        if kept:
            os.replace(draft, path)
        else:
            draft.unlink()
            path.unlink()


class WandbSink:
    """A wandb run fed through a queue by one thread; when it dies, training goes on without it."""

    def __init__(
        self,
        folder: Path,
        *,
        mode: str,
        identity: str,
        settings: Mapping[str, Any],
        start: Callable[..., Any] | None = None,
        patience: float = PATIENCE,
        attach: bool = True,
    ) -> None:
        self.folder = folder
        self.attach = attach  # what training leaves in the folder, at the end
        # mode=None leaves the last word to WANDB_MODE
        self.arguments: dict[str, Any] = {
            "project": os.environ.get("WANDB_PROJECT", "reprl"),
            "dir": str(folder),
            "id": identity,
            "resume": "allow",
            "reinit": "finish_previous",
            "mode": "offline" if mode == "offline" else None,
            **settings,
        } | from_environment(settings)
        self.start = start
        self.patience = patience
        self.lost: str | None = None
        self.waiting: queue.Queue[tuple[int, dict[str, Any]] | None] = queue.Queue(maxsize=10_000)
        self.thread = threading.Thread(target=self._serve, name="wandb", daemon=True)
        self.thread.start()

    def write(self, step: int, row: Mapping[str, float]) -> None:
        self._enqueue(step, dict(row))

    def show(self, step: int, media: Mapping[str, Medium]) -> None:
        self._enqueue(step, dict(media))

    def _enqueue(self, step: int, values: dict[str, Any]) -> None:
        if self.lost is None:
            try:
                self.waiting.put_nowait((step, values))
            except queue.Full:
                self._lose("it is too slow")

    def close(self) -> None:
        """Let wandb write out what it has, within its patience."""
        if self.lost is not None:
            if self.thread.is_alive():  # it was too slow to take what it was given
                _hanging.append("wandb")
        else:
            with suppress(queue.Full):
                self.waiting.put_nowait(None)
            self.thread.join(self.patience)
            if self.thread.is_alive():
                _hanging.append("wandb")
                self._lose(f"it did not finish within {self.patience:g} s")

    def _serve(self) -> None:
        try:
            run = self._init()
            while (item := self.waiting.get()) is not None:
                step, row = item
                self._log(run, step, row)
            if self.attach:
                self._attach(run)
            run.finish()
        except Exception as error:
            self._lose(f"{type(error).__name__}: {error}")

    def _init(self) -> Any:
        if self.start is not None:
            return self.start(**self.arguments)
        import wandb

        return wandb.init(**self.arguments, settings=wandb.Settings(silent=True, console="off"))

    def _log(self, run: Any, step: int, row: dict[str, Any]) -> None:
        files = {k: v for k, v in row.items() if isinstance(v, LoggedFiles)}
        # what a command measures of an older step comes after the newest: wandb wants them in order
        where = {"step": step} if self.attach else {}
        with tempfile.TemporaryDirectory(prefix="reprl-") as place:  # wandb copies while it logs
            values = {k: converted(v, Path(place)) for k, v in row.items() if k not in files}
            run.log({"step": step, **values}, **where)
        for name, medium in files.items():
            import wandb

            artifact = wandb.Artifact(f"{name}-{run.id}", type=medium.kind)
            for file in medium.files():
                artifact.add_file(str(file), name=file.relative_to(medium.folder).as_posix())
            run.log_artifact(artifact)

    def _attach(self, run: Any) -> None:
        """Videos as media, the last validation as a table, the newest checkpoint as an artifact."""
        import wandb

        from reprl.runs.logbook import validation_table

        table = validation_table(self.folder / "evaluation" / "validation.csv")
        if table is not None:
            run.log({"validation/gap": converted(table, self.folder)})

        for video in sorted(self.folder.glob("**/*.mp4")):
            if "wandb" not in video.parts:
                run.log({f"video/{video.stem}": wandb.Video(str(video), format="mp4")})
        newest = sorted((self.folder / "checkpoints").glob("[0-9]*"))[-1:]
        for checkpoint in newest:
            artifact = wandb.Artifact(f"checkpoint-{run.id}", type="model")
            artifact.add_dir(str(checkpoint), name=checkpoint.name)
            artifact.add_file(str(self.folder / "config.yaml"))
            run.log_artifact(artifact)

    def _lose(self, reason: str) -> None:
        if self.lost is None:
            self.lost = reason
            _warn("wandb", reason)


def converted(value: Any, place: Path) -> Any:
    """A number as it is, a medium as wandb's own; a film's file is written to `place`."""
    if isinstance(value, int | float | str):
        return value
    import wandb

    if isinstance(value, LoggedPicture):
        return wandb.Image(value.pixels)
    if isinstance(value, LoggedHistogram):
        return wandb.Histogram(np_histogram=np.histogram(value.values, bins=64))
    if isinstance(value, LoggedTable):
        return wandb.Table(columns=list(value.columns), data=[list(row) for row in value.rows])
    if isinstance(value, LoggedFilm):
        file = place / f"{id(value)}.gif"  # arrays would need moviepy
        file.write_bytes(gif(value.frames, value.fps))
        return wandb.Video(str(file), format="gif")
    return value


def from_environment(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What WANDB_NAME, WANDB_RUN_GROUP, WANDB_TAGS, WANDB_DIR and WANDB_RUN_ID say instead of us.

    An argument of ours would win over them; `wandb agent` says by the id which run is its own.
    """
    words = {"name": "WANDB_NAME", "group": "WANDB_RUN_GROUP", "dir": "WANDB_DIR"}
    words |= {"id": "WANDB_RUN_ID"}
    if "job_type" in settings:  # a command that adds to a run finds it by its own id and name
        words = {"dir": "WANDB_DIR"}
    said: dict[str, Any] = {
        key: os.environ[name] for key, name in words.items() if os.environ.get(name)
    }
    tags = [tag.strip() for tag in os.environ.get("WANDB_TAGS", "").split(",") if tag.strip()]
    if tags and "tags" in settings:
        said["tags"] = [*dict.fromkeys([*tags, *settings["tags"]])]
    return said


def _warn(what: str, reason: str) -> None:
    line = reason.splitlines()[0]
    print(f"WARNING: {what} is lost ({line}); training goes on.", file=sys.stderr)


def require_login() -> None:
    """Refuse wandb=online where nobody is logged in, without asking the network."""
    if os.environ.get("WANDB_MODE", "online") != "online" or os.environ.get("WANDB_API_KEY"):
        return
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    given = os.environ.get("NETRC")
    for path in [Path(given)] if given else [Path.home() / ".netrc", Path.home() / "_netrc"]:
        with suppress(OSError, netrc.NetrcParseError):
            if netrc.netrc(str(path)).authenticators(host):
                return
    raise UserError(
        "wandb=online needs a login: run `wandb login`, set WANDB_API_KEY, or use wandb=offline."
    )
