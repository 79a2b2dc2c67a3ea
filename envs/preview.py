"""What a variant looks like: a contact sheet of them all, or a video of the scripted player.

Every picture comes from the same seed: visual variants show the very same moment of one game.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from reprl.disk import not_written, replacing
from reprl.envs.defaults import DEFAULT_GAME, PROCGEN
from reprl.envs.games import canonical, no_script
from reprl.envs.games import game as game_of
from reprl.envs.machine import FPS
from reprl.envs.variation import Variant, find, variants
from reprl.envs.vector import make_vec_env
from reprl.errors import UserError

MOMENT = 255  # steps into the game at which the sheet's pictures are taken
_RAW, _VIEW = (160, 210), (210, 210)  # width, height of the two pictures of a panel
_GAP, _LABEL, _HEADING, _COLUMNS = 14, 26, 42, 5
_LEVELS = 6  # of each variant of a Procgen game
_PAPER, _INK, _SOFT = (250, 250, 248), (25, 25, 28), (110, 110, 118)


@dataclass(frozen=True)
class Shot:
    """One observation of a game: the raw picture and what the agent sees of it."""

    raw: np.ndarray  # (210, 160, 3) uint8
    view: np.ndarray  # (84, 84) uint8
    tracked: tuple[float, float] | None  # the middle of the object to follow, raw pixels
    score: int
    lives: int


def shots(
    variant: str | Variant,
    *,
    severity: float | None = None,
    seed: int = 0,
    skill: float = 1.0,
    game: str = DEFAULT_GAME,
) -> Iterator[Shot]:
    """A game of the scripted agent, observation by observation, without end."""
    played = game_of(game)
    if played.scripted is None:
        raise UserError(no_script("preview", game))
    found = find(variant, severity, game)
    env = make_vec_env(found, n_envs=1, seed=seed, training=False, game=game)
    with closing(env):
        env.queue(0, seed)
        env.reset()
        agent = played.scripted(skill, seed=seed)
        while True:
            (seen,) = env.objects()
            box = seen.boxes.get(played.tracked) if played.tracked else None
            middle = None if box is None else box.center
            view = env.observations()[0, -1]
            yield Shot(env.frames()[0], view, middle, seen.score, seen.lives)
            env.step(agent.predict([seen]))


def contact_sheet(
    path: Path,
    specs: Sequence[str] = (),
    *,
    severity: float | None = None,
    seed: int = 0,
    game: str = DEFAULT_GAME,
) -> Path:
    """Write a PNG with every given variant, or all a game has, grouped by family."""
    game = canonical(game)
    if not game.startswith(PROCGEN) and game_of(game).scripted is None:
        raise UserError(no_script("preview", game))
    wanted = [find(spec, None, game) for spec in specs or variants(game)]
    _writable(path, (".png",))
    if game.startswith(PROCGEN):
        return _levels_sheet(path, wanted, seed, game)
    groups: dict[str, list[tuple[str, Image.Image]]] = {}
    for found in wanted:
        if severity is not None and found.severity is not None:
            found = found.at(severity)
        groups.setdefault(found.family, []).append((_title(found, game), _panel(found, seed, game)))
    places = _places({family: len(panels) for family, panels in groups.items()})
    width, height = _RAW[0] + _VIEW[0] + 2, _HEADING + _LABEL + _RAW[1]
    columns, rows = (1 + max(place[k] for place in places.values()) for k in (0, 1))
    size = (columns * (width + _GAP) + _GAP, rows * (height + _GAP))
    sheet = Image.new("RGB", size, _PAPER)
    pen = ImageDraw.Draw(sheet)
    for (family, k), (column, row) in places.items():
        x, y = _GAP + column * (width + _GAP), row * (height + _GAP)
        title, panel = groups[family][k]
        if k == 0:
            pen.text((x, y + 12), family, _INK, ImageFont.load_default(24))
        pen.text((x, y + _HEADING + 2), title, _SOFT, ImageFont.load_default(17))
        sheet.paste(panel, (x, y + _HEADING + _LABEL))
    # 256 colours are enough for a sheet and make the file smaller.
    with replacing(path) as draft:
        sheet.quantize(256, dither=Image.Dither.NONE).save(draft, optimize=True)
    return path


def _levels_sheet(path: Path, wanted: Sequence[Variant], seed: int, game: str) -> Path:
    """Some levels of each variant of a Procgen game in a row, as they begin."""
    pictures: dict[str, np.ndarray] = {}
    for variant in wanted:
        env = make_vec_env(variant, n_envs=_LEVELS, seed=seed, training=False, game=game)
        with closing(env):
            for row in range(_LEVELS):
                env.queue(row, seed + row)
            env.reset()
            pictures[variant.name] = env.frames()  # (6, side, side, 3)
    side = next(iter(pictures.values())).shape[1]
    width, height = _LEVELS * (side + _GAP) + _GAP, len(pictures) * (_HEADING + side + _GAP)
    sheet = Image.new("RGB", (width, height), _PAPER)
    pen = ImageDraw.Draw(sheet)
    for k, (name, frames) in enumerate(pictures.items()):
        y = k * (_HEADING + side + _GAP)
        pen.text((_GAP, y + 12), f"{game} · {name}", _INK, ImageFont.load_default(24))
        for column, frame in enumerate(frames):
            sheet.paste(Image.fromarray(frame), (_GAP + column * (side + _GAP), y + _HEADING))
    with replacing(path) as draft:
        sheet.save(draft, optimize=True)
    return path


def _places(sizes: dict[str, int]) -> dict[tuple[str, int], tuple[int, int]]:
    """Column and row of each family's panels: small families share a row, large ones begin one."""
    places: dict[tuple[str, int], tuple[int, int]] = {}
    column = row = 0
    for family, count in sorted(sizes.items(), key=lambda item: item[1]):
        if column and column + count > _COLUMNS:
            column, row = 0, row + 1
        for k in range(count):
            if column == _COLUMNS:
                column, row = 0, row + 1
            places[family, k] = (column, row)
            column += 1
    return places


def video(
    path: Path,
    variant: str | Variant,
    *,
    seconds: float = 20.0,
    severity: float | None = None,
    seed: int = 0,
    skill: float = 1.0,
    game: str = DEFAULT_GAME,
) -> Path:
    """Write an mp4 of the scripted player: the screen, and beside it what an agent gets."""
    if game_of(game).scripted is None:
        raise UserError(no_script("preview", game))
    title = _title(find(variant, severity, game), game)
    _writable(path, (".mp4",))
    import imageio.v2 as imageio

    with imageio.get_writer(path, fps=FPS, macro_block_size=2, quality=7) as writer:
        played = shots(variant, severity=severity, seed=seed, skill=skill, game=game)
        for _ in range(max(1, round(seconds * FPS))):
            shot = next(played)
            writer.append_data(_film(shot, title))  # type: ignore[attr-defined]
        played.close()  # type: ignore[attr-defined]
    return path


def side_by_side(shot: Shot) -> Image.Image:
    """The raw picture and the agent's view, at the same height."""
    both = Image.new("RGB", (_RAW[0] + _VIEW[0] + 2, _RAW[1]), _PAPER)
    both.paste(Image.fromarray(shot.raw), (0, 0))
    view = Image.fromarray(shot.view).resize(_VIEW, Image.Resampling.NEAREST)
    both.paste(view.convert("RGB"), (_RAW[0] + 2, 0))
    return both


def _panel(variant: Variant, seed: int, game: str) -> Image.Image:
    """A variant at the moment; where physics change, with the tracked object's last second."""
    played = shots(variant, seed=seed, game=game)
    seen = [next(played) for _ in range(MOMENT + 1)]
    played.close()  # type: ignore[attr-defined]
    panel = side_by_side(seen[-1])
    if "dynamics" in variant.family:
        pen = ImageDraw.Draw(panel)
        for x, y in (s.tracked for s in seen[-FPS:] if s.tracked is not None):
            pen.ellipse((x - 2, y - 2, x + 2, y + 2), outline=(255, 255, 255))
    return panel


def _title(variant: Variant, game: str = DEFAULT_GAME) -> str:
    """The name, with the severity where it is not the usual one."""
    try:
        usual = find(variant.name, None, game) == variant
    except UserError:
        usual = True  # a user's own, which only they can name
    plain = usual or variant.severity is None
    return variant.name if plain else f"{variant.name}@{variant.severity:g}"


def _film(shot: Shot, title: str) -> np.ndarray:
    """One frame of the video, twice as large, with a line of text on top: (464, 744, 3)."""
    both = side_by_side(shot)
    frame = Image.new("RGB", (2 * both.width, 2 * both.height + 44), _INK)
    frame.paste(both.resize((2 * both.width, 2 * both.height), Image.Resampling.NEAREST), (0, 44))
    pen, font = ImageDraw.Draw(frame), ImageFont.load_default(22)
    pen.text((12, 9), title, (255, 255, 255), font)
    text = f"score {shot.score}   lives {shot.lives}"
    pen.text((frame.width - 12 - pen.textlength(text, font), 9), text, (255, 255, 255), font)
    return np.asarray(frame)


def _writable(path: Path, endings: tuple[str, ...]) -> None:
    if path.suffix.lower() not in endings:
        raise UserError(f"'{path}' must end in {' or '.join(endings)}.")
    if path.is_dir():
        raise UserError(f"'{path}' is a folder, not a file to write.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
    except OSError as error:
        raise not_written(f"'{path}'", error) from error
