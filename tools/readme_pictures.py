"""The pictures of README and of the report's pages, from what is committed: agents and results.

    python -m tools.readme_pictures [agent]

docs/images/agents.png: what an agent is shown of each variant, and what two agents score on it.
docs/images/agents.gif: two agents on green_lines, side by side from the same start, under the heat
of where each looks: its mask where it has one, else where blurring the picture changes its policy.
The second agent is the one named, else the first of MASKED that ships, else that of the strip.
docs/images/diagonals.gif: the same on diagonals; docs/images/where.gif with a mask over frames.
docs/images/report_laptop.png, report_phone.png: the first screens of the report of results/methods,
in Chromium, without which they stay as they are.
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw

from reprl.analysis.attention.heat import heat
from reprl.analysis.attention.lettering import font
from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.views import even_maps, has_mask, look, make_view, pixel_maps
from reprl.analysis.report import write_report
from reprl.envs import make_vec_env
from reprl.envs.objects import Box
from reprl.evaluation.checkpoints import targets
from reprl.policy import policy_player, sample_actions
from reprl.rng import numpy_stream
from reprl.runs.agents import shipped
from tests.analysis import browser

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
VARIANTS = ("original", "constant_rectangle", "moving_square", "green_lines", "diagonals")
AGENTS = {"imitation": "sees frames", "imitation_background": "sees what changed"}
MASKED = (
    "imitation_mask",
    "imitation_taught",
    "imitation_motion",
    "imitation_object",
    "imitation_conv",
)
CAUGHT, HOLDS = (178, 60, 23), (13, 98, 140)
COLOURS = {"imitation": CAUGHT, "imitation_background": HOLDS}
HEATS = {"mask": "its mask", "perturbation": "what it depends on"}
FILMS = {  # the variant, and the second agent where it is always the same
    "agents.gif": ("green_lines", None),
    "diagonals.gif": ("diagonals", None),
    "where.gif": ("diagonals", "imitation_where"),
}
NAMES = ("only_drac:DrAC", "plain:plain PPO")  # as docs/report.md calls them
INK, PAPER = (30, 33, 38), (255, 255, 255)
WIDTH, HEIGHT, GAP, HEAD = 160, 210, 16, 38
LOOK_EVERY = 2  # steps: perturbing a picture takes hundreds of passes


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


def second(asked: str | None = None) -> str:
    """The agent that is filmed beside the first one: as asked, else one that has a mask."""
    there = shipped()
    if asked is not None and asked not in there:
        raise SystemExit(f"no agent '{asked}' ships: choose from {', '.join(there)}.")
    return asked or next((name for name in MASKED if name in there), list(AGENTS)[1])


def game(name: str, variant: str, steps: int, seed: int) -> tuple[list[np.ndarray], str]:
    """Pictures of one game with heat where the agent looks, and what that heat is."""
    (target,), _ = targets(shipped()[name])
    model = target.load()
    player, network = policy_player(model.policy), network_of(model)
    view = make_view(network, None if has_mask(network) else "perturbation")
    env = make_vec_env(variant, 1, training=False, **target.settings)
    env.queue(0, seed)
    observations, state = env.reset(), player.initial_state(1)
    stream = numpy_stream(seed, "film")
    pictures = []
    ratio = np.ones((HEIGHT, WIDTH))
    for step in range(steps):
        frame = env.frame(0)
        if step % LOOK_EVERY == 0:
            cells = look(view, observations)
            size = (HEIGHT, WIDTH)
            ratio = (pixel_maps(view, cells, size) / even_maps(view, cells, size))[0]
        picture = heat(frame, ratio)
        for box in env.objects()[0].boxes.values():  # heat never hides what it should lie on
            if box is not None:
                place = Box(box.x, box.y - 1, box.w, box.h + 1).slices(frame.shape[:2])
                picture[place] = frame[place]
        pictures.append(picture)
        outputs, state = player.outputs(observations, state)
        env.step(sample_actions(outputs.probs, stream.random(1)))
        observations = env.observations()
    return pictures, view.name


def film(other: str, variant: str, steps: int = 110, seed: int = 5) -> list[Image.Image]:
    """The same game of the first agent and another, side by side."""
    names = (next(iter(AGENTS)), other)
    runs = [game(name, variant, steps, seed) for name in names]
    out = []
    for shown in zip(*(pictures for pictures, _ in runs), strict=True):
        page = Image.new("RGB", (2 * WIDTH + GAP, HEIGHT + HEAD), PAPER)
        draw = ImageDraw.Draw(page)
        for i, (name, picture) in enumerate(zip(names, shown, strict=True)):
            x, colour = i * (WIDTH + GAP), (CAUGHT, HOLDS)[i]
            draw.text((x + 2, 1), AGENTS.get(name, name), font=font(15), fill=colour)
            draw.text((x + 2, 21), f"heat: {HEATS[runs[i][1]]}", font=font(11), fill=INK)
            page.paste(Image.fromarray(picture), (x, HEAD))
        out.append(page)
    return out


def screens() -> None:
    """The report of the first sweep as a laptop and a phone show it."""
    if browser.CHROMIUM is None:
        print("there is no Chromium here: the report's pictures stay as they are.")
        return
    with tempfile.TemporaryDirectory() as place:
        path, _ = write_report([ROOT / "results" / "methods"], place, figures=False, names=NAMES)
        page = browser.Page()
        try:
            for name, width, height in (("laptop", 1280, 800), ("phone", 390, 844)):
                page.resize(width, height)
                page.open(path)
                shot = page.call("Page.captureScreenshot", format="png")["data"]
                picture = Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB")
                picture.quantize(128).save(IMAGES / f"report_{name}.png", optimize=True)
        finally:
            page.close()


def main() -> None:
    """Write all pictures."""
    IMAGES.mkdir(exist_ok=True)
    screens()
    strip().save(IMAGES / "agents.png", optimize=True)
    asked = sys.argv[1] if len(sys.argv) > 1 else None
    for name, (variant, always) in FILMS.items():
        first, *rest = [page.quantize(48) for page in film(second(always or asked), variant)]
        first.save(IMAGES / name, save_all=True, append_images=rest, duration=66, loop=0)


if __name__ == "__main__":
    main()
