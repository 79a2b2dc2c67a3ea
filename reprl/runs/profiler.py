"""`profile=true`: a few updates under torch's profiler, as a trace for Perfetto and a table.

It begins after the first update, whose time is that of compiling and of filling caches, and ends
after some seconds, so that the trace stays small; nothing of it changes what is computed.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from stable_baselines3.common.callbacks import BaseCallback

from reprl.disk import write_atomically

if TYPE_CHECKING:
    from reprl.algorithms.base import Algorithm

FOLDER, TRACE, TABLE = "profile", "trace.json.gz", "table.txt"
ENOUGH = 3.0  # seconds, after which no other update is recorded
MOST = 15.0  # seconds, after which even a rollout is cut
LARGEST = 64 << 20  # bytes of a trace that is kept
OPERATIONS = 15  # rows of the table's second half
SPANS = {  # what the update calls its parts -> what the table does
    "update.sample": "update: draw from replay buffer",
    "update.losses": "update: forward pass and losses",
    "update.backward": "update: backward pass",
    "update.step": "update: clipping and optimizer",
    "update.targets": "update: target networks",
}


class Profiler(BaseCallback):
    """Records whole updates, rollouts included, and writes what it saw into the run's folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder / FOLDER
        self.rollouts = -1  # that are over
        self.running: Any = None
        self.over = self.folder.exists()  # a run that is resumed has its profile

    @property
    def updates(self) -> int:
        """Updates so far: one after each rollout, or as a replay algorithm has counted them."""
        counted = getattr(self.model, "_updates", None)
        return self.rollouts if counted is None else int(counted)

    def _on_rollout_start(self) -> None:
        self.rollouts += 1
        if self.over:
            return
        if self.running is None:
            if self.updates >= 1:  # replay algorithms first fill their memory
                self._begin()
            return
        if self.updates > self.before_updates and perf_counter() - self.began > ENOUGH:
            self._end()

    def _on_step(self) -> bool:
        if self.running is not None and perf_counter() - self.began > MOST:
            self._end()
        return True

    def _on_training_end(self) -> None:
        self.rollouts += 1  # the last one's update is over too
        if self.running is not None:
            self._end()
        elif not self.over:
            print("WARNING: profile=true found nothing to record: no update came after the first.")

    def _begin(self) -> None:
        self.before_updates = self.updates
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it would say that it starts and stops
        self.before = dict(self._timings())
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.model.device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self.running = torch.profiler.profile(activities=activities)
        self.began = perf_counter()
        self.running.start()

    def _end(self) -> None:
        seconds = perf_counter() - self.began
        profile, self.running, self.over = self.running, None, True
        profile.stop()
        recorded = self.updates - self.before_updates
        self.folder.mkdir(exist_ok=True)
        averages = profile.key_averages()
        spent = {part: now - self.before[part] for part, now in self._timings().items()}
        spans = {SPANS[a.key]: a.cpu_time_total / 1e6 for a in averages if a.key in SPANS}
        text = where_a_second_goes(seconds, spent, spans, recorded)
        operations = averages.table(sort_by="self_cpu_time_total", row_limit=OPERATIONS)
        write_atomically(self.folder / TABLE, f"{text}\n\n{operations}\n")
        draft = self.folder / f".{TRACE}"  # the ending says how it is written
        profile.export_chrome_trace(str(draft))
        if draft.stat().st_size > LARGEST:
            draft.unlink()
            print(f"WARNING: the trace would be larger than {LARGEST >> 20} MB and was not kept.")
        else:
            os.replace(draft, self.folder / TRACE)
        print(f"{text}\nprofile: {self.folder} (open {TRACE} at https://ui.perfetto.dev)")

    def _timings(self) -> dict[str, float]:
        model: Algorithm = self.model  # type: ignore[assignment]
        return model.timings


def where_a_second_goes(
    seconds: float, spent: dict[str, float], spans: dict[str, float], updates: int
) -> str:
    """A table of milliseconds by what was done, of one second; the update is taken apart."""
    rows = {"games": spent["env"], "rollout: policy and memory": spent["forward"], **spans}
    rows["update: the rest"] = max(0.0, spent["update"] - sum(spans.values()))
    rows["everything else"] = max(0.0, seconds - sum(rows.values()))
    recorded = f"{updates} update{'' if updates == 1 else 's'}"
    title = f"where a second goes ({recorded} in {seconds:.1f} s)"
    lines = [f"{name:<34}{1000 * part / seconds:7.0f} ms" for name, part in rows.items()]
    return "\n".join([title, *lines])
