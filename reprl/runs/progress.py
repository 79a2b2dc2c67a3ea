"""What a run shows while it trains: a live view on a terminal, plain lines anywhere else."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reprl.schema import CLEAN, MASK_CHANCE, MASK_POINTING, MASK_STATES

FIRST = 4.0  # seconds after which a run says how far it is, however far its first row of metrics is
SILENCE = 12.0  # seconds until it says so again
PATIENCE = 30.0  # seconds without a row after which a line is shown all the same
EARLY = 0.05  # of a run: before that, nothing is expected to be in its range
HARMLESS = 0.02  # a clip range scheduled towards 0 clips everything, and harmlessly
# the rules of docs/algorithms.md for the representation
MOST_DORMANT, OPPOSED, LEAST_RANK, LARGEST_RMS, MOST_CHURN = 0.75, -0.5, 2.0, 100.0, 0.5
TIMED = ("env", "forward", "update", "other")
FIELDS = {  # shown first, in this order, under these names
    "rollout/score": "score",
    "train/approx_kl": "KL",
    "train/clip_fraction": "clipped",
    "train/entropy_loss": "entropy loss",
    "train/explained_variance": "explained variance",
    "train/gradient_norm": "gradient norm",
    "train/value_loss": "value loss",
    "train/loss": "loss",
}


def alarms(values: Mapping[str, float], n_actions: int, progress: float) -> list[str]:
    """What left its healthy range, one short sentence each; a run that has just begun has none."""
    found: list[str] = []
    if progress <= EARLY:
        return found
    kl = values.get("train/approx_kl", 0.0)
    if kl > 0.03:
        found.append(f"KL {kl:.3f} is high: good runs stay below 0.02")
    clipped = values.get("train/clip_fraction", 0.0)
    if clipped > 0.4 and values.get("train/clip_range", 1.0) > HARMLESS:
        found.append(f"{clipped:.0%} of the updates are clipped")
    entropy = -values.get("train/entropy_loss", -math.inf)
    exploring = "imitation/beta" not in values  # an imitator need not
    if exploring and entropy < 0.05 * math.log(max(n_actions, 2)):
        found.append(f"entropy {entropy:.3f}: the policy has stopped exploring")
    explained = values.get("train/explained_variance", 1.0)
    if explained < -0.1 and progress > 0.1:
        found.append(f"explained variance {explained:.2f}: the value head is worse than a constant")
    for name, value in values.items():
        if "dead" in name and value > 0.5:
            found.append(f"{name} {value:.0%}: most units never fire")
        if name.startswith("dormant_units/") and value > MOST_DORMANT:
            found.append(f"{name} {value:.0%}: few units carry the layer")
        if name.startswith("gradient/") and name.endswith("_cosine") and value < OPPOSED:
            found.append(f"{name} {value:.2f}: this loss pulls against what is learned from reward")
    rank = values.get("features/effective_rank", math.inf)
    if rank < LEAST_RANK:
        found.append(f"effective rank {rank:.1f}: the features vary in fewer than two directions")
    rms = values.get("features/rms", 0.0)
    if rms > LARGEST_RMS:
        found.append(f"features of size {rms:.0f} (root mean square): they are growing away")
    churn = values.get("churn/policy", 0.0)
    if churn > MOST_CHURN:
        found.append(f"one update changes the best action of {churn:.0%} of its own states")
    for label, meaning in MASK_STATES.items():
        share = values.get(f"attention/{label}", 0.0)  # of the looks since the last row
        if share > 0.5:
            found.append(f"the attention mask is {label}: {meaning}")
    guess = values.get(MASK_CHANCE, 0.0)
    looked = {k: v for k, v in values.items() if k.startswith(MASK_POINTING)}
    pointing = looked.get(f"{MASK_POINTING}{CLEAN}", max(looked.values(), default=1.0))
    if progress > 0.5 and pointing <= guess:
        found.append(
            f"the attention mask points at the game's objects in {pointing:.0%} of looks: chance "
            f"is {guess:.0%}"
        )
    return found


@dataclass
class ProgressState:
    """Everything the view knows at one time."""

    step: int = 0
    total: int = 1
    speed: float = math.nan  # steps a second
    shares: Mapping[str, float] = field(default_factory=dict)  # env, forward, update, other
    values: Mapping[str, float] = field(default_factory=dict)
    alarms: list[str] = field(default_factory=list)

    @property
    def left(self) -> str:
        """Time left, in words."""
        if not self.speed or math.isnan(self.speed):
            return "?"
        # The last rollout may end a little beyond the total.
        return duration(max(0, self.total - self.step) / self.speed)


class Progress:
    """Shows moments; `live` draws over itself, otherwise each row of metrics is a line."""

    def __init__(
        self,
        title: str,
        *,
        mode: str = "auto",
        console: Console | None = None,
        at_work: Callable[[], str] | None = None,
    ) -> None:
        self.title = title
        self.console = console or Console(file=sys.stdout)
        self.off = mode == "off"
        self.live: Live | None = None
        if not self.off and self.console.is_terminal:
            self.live = Live(console=self.console, auto_refresh=False)
        self.shown = 0.0
        self.printed = time.monotonic()
        self.lined = -math.inf  # when a line of metrics was printed: the first update has one
        self.raised: set[str] = set()
        self.at_work = at_work  # what is done in this moment, asked for after a silence
        self._over = threading.Event()

    def __enter__(self) -> Progress:
        if self.live is not None:
            self.live.start()
        if self.at_work is not None and not self.off:
            threading.Thread(target=self._watch, args=(self.at_work,), daemon=True).start()
        return self

    def _watch(self, at_work: Callable[[], str]) -> None:
        """A first rollout may take minutes: until there is a row to show, say that it goes on."""
        began, silence = time.monotonic(), FIRST
        while not self._over.wait(0.5):
            now = time.monotonic()
            if now - max(self.printed, self.shown) < silence:
                continue
            self.printed, silence = now, SILENCE
            text = f"{at_work()}, {duration(now - began)} so far"
            if self.live is None:
                self.console.print(text, highlight=False, soft_wrap=True)
            elif not self.shown:
                self.live.update(Text(text), refresh=True)

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        if self.live is not None:
            self.live.stop()

    def show(self, moment: ProgressState, *, row: bool) -> None:
        """Show a moment; `row` says that a row of metrics was just written."""
        if self.off:
            return
        if self.live is not None:
            if row or time.monotonic() - self.shown > 0.5:
                self.shown = time.monotonic()
                self.live.update(view(self.title, moment), refresh=True)
        elif row or time.monotonic() - self.lined > PATIENCE / 2:
            self.printed = self.lined = time.monotonic()
            self.console.print(line(moment), highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """A sentence that stays, above the live view."""
        self.printed = time.monotonic()
        if not self.off:
            self.console.print(text, highlight=False, soft_wrap=True)


def line(moment: ProgressState) -> str:
    """The same facts in one plain line."""
    shares = " ".join(f"{p} {moment.shares[p]:.0%}" for p in TIMED if p in moment.shares)
    facts = [f"step {moment.step:,}/{moment.total:,}", f"{moment.speed:.0f} steps/s"]
    facts += [shares] if shares else []
    facts += [f"left {moment.left}"]
    facts += [f"{name} {number(moment.values[key])}" for key, name in _named(moment.values)]
    facts += [f"ALARM {alarm}" for alarm in moment.alarms]
    return " | ".join(facts)


def view(title: str, moment: ProgressState) -> RenderableType:
    """The live view: where the run is, what it costs, what it learns, what is wrong."""
    top = Table.grid(expand=True, padding=(0, 1))
    top.add_column(ratio=1)
    top.add_column(justify="right")
    top.add_row(
        ProgressBar(total=moment.total, completed=moment.step),
        f"{moment.step:,} of {moment.total:,}  {moment.step / moment.total:.0%}",
    )
    speed = Text.assemble(
        (f"{moment.speed:,.0f} steps/s", "bold"), f"   {moment.left} left   time: "
    )
    speed.append("  ".join(f"{p} {moment.shares[p]:.0%}" for p in TIMED if p in moment.shares))
    facts = Table.grid(padding=(0, 2))
    named = _named(moment.values)
    for start in range(0, len(named), 3):
        cells = []
        for key, name in named[start : start + 3]:
            cells += [Text(name, style="dim"), Text(number(moment.values[key]), style="bold")]
        facts.add_row(*cells)
    warnings = [Text(f"! {alarm}", style="bold red") for alarm in moment.alarms]
    return Panel(Group(top, speed, facts, *warnings), title=title, title_align="left")


def _named(values: Mapping[str, float]) -> list[tuple[str, str]]:
    known = {
        key for key, value in values.items() if not math.isnan(value)
    }  # not yet: no game ended
    named = [(key, name) for key, name in FIELDS.items() if key in known]
    if values.get("train/clip_range", 1.0) <= HARMLESS:
        named = [(key, name) for key, name in named if key != "train/clip_fraction"]
    terms = [key for key in values if key.startswith("loss/") and not key.endswith("_weight")]
    named += [(key, key.removeprefix("loss/")) for key in terms if not key.endswith("_share")]
    return named + [(key, key) for key in values if key.startswith(("validation/", "mask/"))]


def number(value: float) -> str:
    """A number in at most about seven characters."""
    if value == 0 or 0.01 <= abs(value) < 10_000:
        return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:.1e}"


def duration(seconds: float) -> str:
    """A time span as a person would say it: 42s, 12m, 3h 05m, 2d 4h."""
    if seconds < 90:
        return f"{seconds:.0f}s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m" if hours < 48 else f"{hours // 24}d {hours % 24}h"
