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
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from reprl.disk import out_of_space
from reprl.errors import UserError

PATIENCE = 30.0  # seconds that wandb gets to finish at the end of a run
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


class TensorBoardSink:
    """Scalars as TensorBoard events; the sub-second wall clock is TensorBoard's own.

    Where they cannot be written, training goes on without them, but for a full disk: it stops.
    """

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))
        self.lost: str | None = None

    def write(self, step: int, row: Mapping[str, float]) -> None:
        if self.lost is not None:
            return
        with self._losing():
            for name, value in row.items():
                if isinstance(value, int | float) and math.isfinite(value):
                    self.writer.add_scalar(name, value, step)
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
    ) -> None:
        self.folder = folder
        # mode=None leaves the last word to WANDB_MODE
        self.arguments: dict[str, Any] = {
            "project": os.environ.get("WANDB_PROJECT", "reprl"),
            "dir": str(folder),
            "id": identity,
            "resume": "allow",
            "reinit": "finish_previous",
            "mode": "offline" if mode == "offline" else None,
            **settings,
        }
        self.start = start
        self.patience = patience
        self.lost: str | None = None
        self.waiting: queue.Queue[tuple[int, dict[str, float]] | None] = queue.Queue(maxsize=10_000)
        self.thread = threading.Thread(target=self._serve, name="wandb", daemon=True)
        self.thread.start()

    def write(self, step: int, row: Mapping[str, float]) -> None:
        if self.lost is None:
            try:
                self.waiting.put_nowait((step, dict(row)))
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
                run.log({"step": step, **row}, step=step)
            self._attach(run)
            run.finish()
        except Exception as error:
            self._lose(f"{type(error).__name__}: {error}")

    def _init(self) -> Any:
        if self.start is not None:
            return self.start(**self.arguments)
        import wandb

        return wandb.init(**self.arguments, settings=wandb.Settings(silent=True, console="off"))

    def _attach(self, run: Any) -> None:
        """Videos as media, the newest checkpoint as an artifact."""
        import wandb

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
