"""Play the game yourself, in every variant, in a window or in the terminal; or watch an agent."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import cv2
import numpy as np

from reprl.envs.games import Roles
from reprl.envs.machine import FPS
from reprl.envs.observation import newest_frame
from reprl.envs.variation import Variant
from reprl.envs.vector import make_vec_env
from reprl.errors import UserError

Shown = Literal["screen", "agent"]
HOLD = 3  # steps that a key counts as held in a terminal, which never reports a release
TERMINAL_KEYS = {"a": "left", "d": "right", " ": "fire"}  # key -> role of the action
RAMP = " .:-=+*#%@"
_SHOWN = slice(0, 196)  # rows of the screen worth showing


class HumanGame:
    """One game in play: steps it and gives the picture to show.

    Where an agent plays, `settings` are those of what it sees, and `agent` chooses its actions from
    observations (1, stack, size, size); `True` says that a new game has begun. `games` are the
    seeds of the games to play, after which the session is over; without them it has no end.
    """

    def __init__(
        self,
        variant: str | Variant,
        *,
        severity: float | None,
        seed: int,
        view: Shown,
        settings: Mapping[str, Any] | None = None,
        agent: Callable[[np.ndarray, bool], int] | None = None,
        games: Sequence[int] = (),
    ) -> None:
        self.env = make_vec_env(
            variant, n_envs=1, seed=seed, training=False, severity=severity, **(settings or {})
        )
        self.agent = agent
        self.began = True
        self.wanted = len(games)
        self.finished: list[tuple[float, int, bool]] = []  # score, frames, cut off, in their order
        for game in games:
            self.env.queue(0, game)
        self.env.reset()
        self.observation = self.env.observations()
        self.view = view
        self.roles = Roles.of(self.env.action_meanings)
        self.score, self.lives, self.best = 0.0, 5, 0.0

    def turn(self, role: str) -> None:
        """One step: what the agent chooses, or the action of the role whose key is held."""
        if self.agent is None:
            self.step(self.action(role))
        else:
            self.step(self.agent(self.observation, self.began))

    def step(self, action: int) -> None:
        """Play one action."""
        _, rewards, dones, infos = self.env.step(np.array([action]))
        self.observation = self.env.observations()
        self.score += float(rewards[0])
        self.lives = int(infos[0]["lives"])
        self.best = max(self.best, self.score)
        self.began = bool(dones[0])
        if self.began:
            ended = infos[0]["episode"]
            cut = bool(infos[0]["TimeLimit.truncated"])
            self.finished.append((float(ended["r"]), int(ended["l"]), cut))
            self.score, self.lives = 0.0, 5

    @property
    def over(self) -> bool:
        """Whether all games that were to be played have been."""
        return 0 < self.wanted <= len(self.finished)

    def action(self, role: str = "noop") -> int:
        """The action of a role; a game without it does nothing."""
        found: int | None = getattr(self.roles, role)
        return (self.roles.noop or 0) if found is None else found

    def picture(self) -> np.ndarray:
        """What is shown, uint8 (height, width, 3)."""
        if self.view == "agent":
            seen = newest_frame(self.observation[0], self.env.channels)
            return np.repeat(seen[..., None], 3, axis=2)
        return self.env.frames()[0][_SHOWN]

    def status(self) -> str:
        """The line under the picture."""
        games = f"   game {len(self.finished) + 1} of {self.wanted}" if self.wanted else ""
        return f"score {self.score:g}   lives {self.lives}   best {self.best:g}{games}"

    def close(self) -> None:
        """Stop the game."""
        self.env.close()


def has_screen(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Whether a window can be opened here."""
    if platform in ("win32", "darwin"):
        return True
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def has_colour(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal shows 24-bit colours."""
    told = environment.get("COLORTERM", "") in ("truecolor", "24bit")
    return told and "NO_COLOR" not in environment


# -- the terminal ------------------------------------------------------------------------------


def rendered(picture: np.ndarray, columns: int, lines: int, *, colour: bool) -> str:
    """The picture as text that fits the given space: half blocks in colour, or plain letters."""
    height, width = picture.shape[:2]
    # A letter is about twice as high as wide; the console's own pixels are wider than high.
    stretch = 1.3 if height > width else 1.0
    scale = min(columns / (width * stretch), 2 * lines / height)
    across = max(1, int(width * stretch * scale))
    down = max(2, int(height * scale) // 2 * 2)
    if not colour:
        small = cv2.resize(picture, (across, down // 2), interpolation=cv2.INTER_AREA)
        gray = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)
        # The brightest thing of the game is about 150: the ramp ends there.
        level = np.minimum(gray.astype(int) * len(RAMP) // 150, len(RAMP) - 1)
        return "\r\n".join("".join(RAMP[v] for v in row) for row in level)
    small = cv2.resize(picture, (across, down), interpolation=cv2.INTER_AREA)
    out = []
    for upper, lower in zip(small[::2].tolist(), small[1::2].tolist(), strict=True):
        line, last = "", None
        for (r, g, b), (s, h, c) in zip(upper, lower, strict=True):
            paint = f"\x1b[38;2;{r};{g};{b};48;2;{s};{h};{c}m"
            line += ("" if paint == last else paint) + "▀"
            last = paint
        out.append(line + "\x1b[0m")
    return "\r\n".join(out)


@contextmanager
def _keyboard() -> Iterator[Any]:
    """Single keys from the terminal, without echo; the terminal is always given back."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("reprl play needs a screen or a terminal: here is neither.")
    import select
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def keys() -> str:
        pressed = ""
        while select.select([number], [], [], 0)[0]:
            pressed += os.read(number, 64).decode(errors="ignore") or "q"
            if pressed.endswith("q"):
                break
        return pressed

    try:
        tty.setcbreak(number)
        sys.stdout.write("\x1b[?1049h\x1b[?25l")
        yield keys
    finally:
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def play_in_terminal(session: HumanGame, title: str) -> None:
    """Play with a, d, space and q until q."""
    role, held = "noop", 0
    with _keyboard() as keys:
        while not session.over:
            began = time.monotonic()
            pressed = keys()
            if "q" in pressed or "\x03" in pressed:
                return
            for key in pressed:
                if key in TERMINAL_KEYS:
                    role, held = TERMINAL_KEYS[key], HOLD
            session.turn(role if held > 0 else "noop")
            held -= 1
            columns, lines = shutil.get_terminal_size()
            text = rendered(session.picture(), columns, lines - 2, colour=has_colour())
            keys_here = "q quit" if session.agent else "a left, d right, space serve, q quit"
            foot = f"{title}   {session.status()}   {keys_here}"
            sys.stdout.write(f"\x1b[H{text}\x1b[0J\r\n{foot[: columns - 1]}")
            sys.stdout.flush()
            time.sleep(max(0.0, 1 / FPS - (time.monotonic() - began)))


# -- the window --------------------------------------------------------------------------------


def play_in_window(session: HumanGame, title: str, *, steps: int | None = None) -> None:
    """Play with the arrow keys or a and d, space to serve, q or the window's button to end."""
    import pygame

    pygame.display.init()  # not init(): a machine without sound would complain
    try:
        size = (672, 672) if session.view == "agent" else (800, 784)
        window = pygame.display.set_mode(size)
        clock = pygame.time.Clock()
        while (steps is None or steps > 0) and not session.over:
            steps = None if steps is None else steps - 1
            for event in pygame.event.get():
                leaving = event.type == pygame.KEYDOWN and event.key in (
                    pygame.K_q,
                    pygame.K_ESCAPE,
                )
                if event.type == pygame.QUIT or leaving:
                    return
            down = pygame.key.get_pressed()
            role = "noop"
            if down[pygame.K_LEFT] or down[pygame.K_a]:
                role = "left"
            elif down[pygame.K_RIGHT] or down[pygame.K_d]:
                role = "right"
            elif down[pygame.K_SPACE]:
                role = "fire"
            session.turn(role)
            image = cv2.resize(session.picture(), size, interpolation=cv2.INTER_NEAREST)
            surface = pygame.surfarray.make_surface(image.swapaxes(0, 1))
            window.blit(surface, (0, 0))
            pygame.display.set_caption(f"{title}   {session.status()}")
            pygame.display.flip()
            clock.tick(FPS)
    finally:
        pygame.quit()
