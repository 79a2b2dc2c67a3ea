"""A film of agents at play: the screen, each agent beside the next, with where it looks if asked.

checkpoint -> play loop -> **video** -> mp4 or GIF. Every agent plays its own game of the same seed,
so that the first frames are the same and what follows is what each made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageDraw

from reprl.analysis.attention.heat import heat
from reprl.analysis.attention.lettering import font, wrapped
from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.views import Attribution, even_maps, look, make_view, pixel_maps
from reprl.disk import replacing
from reprl.envs.machine import FPS
from reprl.envs.protocol import GameVecEnv, VariantSpec
from reprl.envs.vector import make_vec_env
from reprl.errors import UserError
from reprl.evaluation.play_loop import PlayLoop
from reprl.rng import numpy_stream
from reprl.runs.media import gif

ENDINGS = (".mp4", ".gif")
ZOOM, HEAD = 2, 48  # enlargement of the screen, height of the two lines above it
INK, QUIET, PAPER = (235, 235, 235), (160, 160, 168), (24, 24, 27)


@dataclass(frozen=True)
class FilmedAgent:
    """Who is filmed: a loaded model, and what its environments share with its training."""

    name: str
    model: Any
    settings: dict[str, Any]


def check_output(path: Path) -> None:
    """Refuse a file that is no film or cannot be written, before anything is played."""
    from reprl.runs.places import check_writable

    if path.suffix.lower() not in ENDINGS:
        raise UserError(f"output={path} must end in {' or '.join(ENDINGS)}.")
    if path.is_dir():
        raise UserError(f"output={path} is a folder: name a file to write.")
    check_writable(path.parent, "output")


def write_film(
    agents: Sequence[FilmedAgent],
    variant: VariantSpec,
    path: Path,
    *,
    seconds: float = 20.0,
    seed: int = 0,
    attention: str = "off",
    deterministic: bool = False,
) -> dict[str, float]:
    """Write the film and give each agent's points in it; whole, or not at all."""
    steps = max(1, round(seconds * FPS))
    scores: dict[str, float] = {}
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack, replacing(path) as draft:
        games = [
            stack.enter_context(
                closing(_Game(a, variant, seed, attention, deterministic=deterministic))
            )
            for a in agents
        ]
        frames = _frames(games, steps, scores)
        if path.suffix.lower() == ".gif":
            draft.write_bytes(gif(np.stack(list(frames)), FPS))
        else:
            _write_mp4(draft, frames)
    return scores


def _frames(games: Sequence[_Game], steps: int, scores: dict[str, float]) -> Iterator[np.ndarray]:
    for step in range(steps):
        yield np.concatenate([game.panel() for game in games], axis=1)
        if step + 1 < steps:
            for game in games:
                game.step()
    for number, game in enumerate(games):
        name = game.agent.name
        scores[name if name not in scores else f"{name} ({number + 1})"] = game.points


def _write_mp4(path: Path, frames: Iterator[np.ndarray]) -> None:
    import imageio.v2 as imageio

    video: Any = imageio.get_writer(
        path,
        format="FFMPEG",  # type: ignore[arg-type]  # a draft's name may end otherwise
        fps=FPS,
        codec="libx264",
        quality=7,
        macro_block_size=2,
        ffmpeg_log_level="error",
        output_params=["-preset", "veryfast"],
    )
    with video:
        for frame in frames:
            video.append_data(frame)


class _Game:
    """One agent's game, frame by frame."""

    def __init__(
        self,
        agent: FilmedAgent,
        variant: VariantSpec,
        seed: int,
        attention: str,
        *,
        deterministic: bool,
    ) -> None:
        self.agent = agent
        self.deterministic = deterministic
        network = network_of(agent.model, str(agent.settings.get("game", "")))
        method = None if attention == "auto" else attention
        self.view: Attribution | None = None
        if attention != "off":
            self.view = make_view(network, method)
        chosen = {**agent.settings, "training": False, "seed": seed}
        self.env: GameVecEnv = make_vec_env(variant, n_envs=1, **chosen)
        self.loop = PlayLoop(self.env, network)
        self.stream = numpy_stream(seed, "video", "actions")
        self.game, self.points = 0.0, 0.0  # points of this game, and of all in the film

    def close(self) -> None:
        self.env.close()

    def step(self) -> None:
        actions = self.loop.choose(self.stream.random(1), deterministic=self.deterministic)
        _, dones, infos = self.loop.step(actions)
        reward = float(infos[0]["raw_reward"])
        self.points += reward
        self.game = 0.0 if dones[0] else self.game + reward

    def panel(self) -> np.ndarray:
        """The screen enlarged, the agent's name and its points above it; sides are even."""
        frame = self.env.frame(0)
        words = f"{self.game:g} points"
        if self.view is not None:
            if self.loop.state:
                self.loop.outputs()  # what it sees now is what it remembers
            cells = look(self.view, self.loop.observations, self.loop.state)
            raw = frame.shape[:2]
            ratio = pixel_maps(self.view, cells, raw) / even_maps(self.view, cells, raw)
            frame = heat(frame, ratio[0])
            words += f" · {self.view.words}"
        large = cv2.resize(frame, None, fx=ZOOM, fy=ZOOM, interpolation=cv2.INTER_NEAREST)
        height, width = large.shape[0] + HEAD, large.shape[1] + 8
        sheet = Image.new("RGB", (width, height + height % 2), PAPER)
        pen = ImageDraw.Draw(sheet)
        pen.text((6, 4), wrapped(self.agent.name, width - 8, 16)[0], INK, font(16))
        pen.text((6, 25), words, QUIET, font(15))
        sheet.paste(Image.fromarray(large), (4, HEAD))
        return np.asarray(sheet)
