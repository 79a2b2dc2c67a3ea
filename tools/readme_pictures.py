"""The pictures of README's first screen, from the agents that ship and their published games.

    python -m tools.readme_pictures

docs/images/agents.png: what an agent is shown of each variant, and what two agents score on it.
docs/images/agents.gif: the same two agents on green_lines, the same game side by side.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw

from reprl.analysis.attention.lettering import font
from reprl.envs import make_vec_env
from reprl.evaluation.checkpoints import targets
from reprl.policy import policy_player, sample_actions
from reprl.rng import numpy_stream
from reprl.runs.agents import shipped

IMAGES = Path(__file__).parents[1] / "docs" / "images"
VARIANTS = ("original", "constant_rectangle", "moving_square", "green_lines", "diagonals")
AGENTS = {"imitation": "sees frames", "imitation_background": "sees what changed"}
COLOURS = {"imitation": (178, 60, 23), "imitation_background": (13, 98, 140)}
INK, PAPER = (30, 33, 38), (255, 255, 255)
WIDTH, HEIGHT, GAP = 160, 210, 16


def scores(name: str) -> pd.Series:
    """Mean points of a shipped agent's published games, by variant."""
    games = pd.read_csv(shipped()[name] / "evaluation" / "episodes.csv")
    return games.groupby("variant")["episode_return"].mean()


def frames() -> dict[str, np.ndarray]:
    """One moment of one game, as each variant draws it."""
    env = make_vec_env(list(VARIANTS), len(VARIANTS), training=False)
    for index in range(len(VARIANTS)):
        env.queue(index, 3)
    env.reset()
    for _ in range(24):
        env.step(np.full(len(VARIANTS), 3))
    return dict(zip(VARIANTS, env.frames(), strict=True))


def strip() -> Image.Image:
    """Every variant's picture with the two agents' points under it."""
    left, line, big = 170, 26, font(17)
    size = (left + len(VARIANTS) * (WIDTH + GAP), 28 + HEIGHT + 12 + line * len(AGENTS) + 6)
    page = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(page)
    shown = frames()
    found = {name: scores(name) for name in AGENTS}
    for column, variant in enumerate(VARIANTS):
        x = left + column * (WIDTH + GAP)
        draw.text((x, 4), variant.replace("_", " "), font=big, fill=INK)
        page.paste(Image.fromarray(shown[variant]), (x, 28))
        for row, name in enumerate(AGENTS):
            text = f"{found[name][variant]:.0f}"
            place = (x + WIDTH / 2, 28 + HEIGHT + 12 + row * line)
            draw.text(place, text, font=big, fill=COLOURS[name], anchor="ma")
    for row, (name, what) in enumerate(AGENTS.items()):
        place = (8, 28 + HEIGHT + 12 + row * line)
        draw.text(place, what, font=big, fill=COLOURS[name])
    draw.text((8, 4), "points a game", font=big, fill=INK)
    return page


def film(variant: str = "green_lines", steps: int = 110, seed: int = 5) -> list[Image.Image]:
    """The same game of both agents, side by side."""
    runs: list[list[np.ndarray]] = []
    for name in AGENTS:
        (target,), _ = targets(shipped()[name])
        player = policy_player(target.load().policy)
        env = make_vec_env(variant, 1, training=False, **target.settings)
        env.queue(0, seed)
        observations, state = env.reset(), player.initial_state(1)
        stream = numpy_stream(seed, "film")
        pictures = []
        for _ in range(steps):
            pictures.append(env.frame(0))
            outputs, state = player.outputs(observations, state)
            env.step(sample_actions(outputs.probs, stream.random(1)))
            observations = env.observations()
        runs.append(pictures)
    out = []
    for left, right in zip(*runs, strict=True):
        page = Image.new("RGB", (2 * WIDTH + GAP, HEIGHT + 24), PAPER)
        draw = ImageDraw.Draw(page)
        for x, picture, key in zip((0, WIDTH + GAP), (left, right), AGENTS, strict=True):
            draw.text((x + 2, 2), AGENTS[key], font=font(15), fill=COLOURS[key])
            page.paste(Image.fromarray(picture), (x, 24))
        out.append(page)
    return out


def main() -> None:
    """Write both pictures."""
    IMAGES.mkdir(exist_ok=True)
    strip().save(IMAGES / "agents.png", optimize=True)
    first, *rest = [page.quantize(64) for page in film()]
    first.save(IMAGES / "agents.gif", save_all=True, append_images=rest, duration=66, loop=0)


if __name__ == "__main__":
    main()
