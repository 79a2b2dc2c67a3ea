"""Films for the explorer: one game of an agent, in every picture, with what it made of each.

checkpoint -> twin evaluation's game -> **film** -> evaluation/film/ in the run folder -> report.
The agent plays the clean picture; at each step the frame, its attention, action probabilities and
value are kept for the clean picture and for each variant's.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from reprl import guard
from reprl.analysis.attention.heat import LEVELS, RATIO_STEPS
from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.views import (
    Attribution,
    even_maps,
    look,
    make_view,
    pixel_maps,
)
from reprl.analysis.probe.belief import Belief, believed
from reprl.disk import write_atomically
from reprl.envs import Variant, make_vec_env
from reprl.envs.defaults import CLEAN
from reprl.envs.variation import find
from reprl.errors import UserError
from reprl.evaluation.checkpoints import Measured
from reprl.evaluation.episodes import FRAME_LIMIT
from reprl.evaluation.players import ModelAgent, Task
from reprl.evaluation.twin import jensen_shannon
from reprl.evaluation.variants import label
from reprl.game_seeds import whose_games
from reprl.policy import State, sample_actions

FOLDER = "evaluation/film"
ABOUT = "film.json"
COLUMNS = 20  # tiles in a row of a sprite
GRID = 21  # cells of an attention map along each side, at most


@dataclass
class Film:
    """What was seen and thought in T steps; the first of V pictures is the clean one."""

    variants: list[str]  # (V,) labels
    actions: tuple[str, ...]  # (A,) what they mean
    frames: np.ndarray  # (T, V, H, W, 3) uint8
    probs: np.ndarray  # (T, V, A)
    values: np.ndarray  # (T, V)
    chosen: np.ndarray  # (T,) the action that was played
    scores: np.ndarray  # (T,) points in the game so far
    games: np.ndarray  # (T,) which game a step is of
    view: str = ""  # how attention was seen, empty without any
    maps: np.ndarray | None = None  # (T, V, h, w) attention as a multiple of an even map's
    tracked: str = ""  # the object whose true place is known
    truth: list[list[float] | None] = field(default_factory=list)  # (T,) its middle, raw pixels
    belief: np.ndarray | None = None  # (T, V, 2) where the agent believes it to be, raw pixels


def record_film(
    model: Any,
    variants: Sequence[Variant],
    *,
    steps: int = 300,
    seed: int = 0,
    games: str = "own",
    deterministic: bool = False,
    sticky: float = 0.0,
    settings: dict[str, Any] | None = None,
    labels: dict[str, Any] | None = None,
    belief: Belief | None = None,
) -> Film:
    """Play the games of the twin evaluation and keep everything; variants leave the game alone."""
    agent = ModelAgent(model, deterministic=deterministic, labels=labels)
    whose = whose_games(games, agent.labels["train_seed"])
    chosen = [find(CLEAN), *variants]
    view = _view(model)
    rows: list[dict[str, Any]] = []
    env = make_vec_env(
        chosen,
        len(chosen),
        training=False,
        sticky=sticky,
        max_frames=FRAME_LIMIT,
        **(settings or {}),
    )
    with closing(env):
        tracked = (env.game.tracked if env.game.has_truth else None) or ""
        meanings = tuple(env.action_meanings)
        episode = 0
        while len(rows) < steps:
            task = Task(chosen[0], episode, int(seed), whose)
            uniforms, score, over = task.uniforms(), 0.0, False
            for index in range(env.num_envs):
                env.queue(index, task.game_seed)
            observations = env.reset()
            state = agent.player.initial_state(env.num_envs)
            while not over and len(rows) < steps:
                outputs, following = agent.player.outputs(observations, state)
                clean = outputs.probs[:1]
                draw = np.array([uniforms.random()])
                greedy = agent.deterministic
                action = clean.argmax(axis=1) if greedy else sample_actions(clean, draw)
                row: dict[str, Any] = {
                    "frames": env.frames(),
                    "probs": outputs.probs,
                    "values": outputs.values,
                }
                row |= {"chosen": int(action[0]), "scores": score, "games": episode}
                row["belief"] = None if belief is None else belief.places(outputs.features)
                row["maps"] = None if view is None else _ratios(view, observations, state)
                state = following
                row["truth"] = _middle(env.objects()[0].boxes.get(tracked)) if tracked else None
                rows.append(row)
                _, _, dones, infos = env.step(np.repeat(action, env.num_envs))
                observations = env.observations()
                score, over = score + float(infos[0]["raw_reward"]), bool(dones[0])
            episode += 1
    return Film(
        variants=[label(variant) for variant in chosen],
        actions=meanings,
        view="" if view is None else view.name,
        maps=None if view is None else np.stack([row["maps"] for row in rows]),
        tracked=tracked,
        belief=None if belief is None else np.stack([row["belief"] for row in rows]),
        truth=[row["truth"] for row in rows] if tracked else [],
        **{
            key: np.stack([row[key] for row in rows])
            for key in ("frames", "probs", "values", "chosen", "scores", "games")
        },
    )


def _view(model: Any) -> Attribution | None:
    """The agent's mask, or its gradient; None for agents that have neither."""
    try:
        return make_view(network_of(model))
    except UserError:
        return None


def _ratios(view: Attribution, observations: np.ndarray, state: State) -> np.ndarray:
    """Attention (V, h, w) as a multiple of what an even map of the same mass has there."""
    cells = look(view, observations, state)
    size = view.network.shape[1:]
    grid = tuple(min(GRID, side) for side in size[::-1])  # cv2 counts width first
    ratio = pixel_maps(view, cells, size) / even_maps(view, cells, size)
    return np.stack([cv2.resize(one, grid, interpolation=cv2.INTER_AREA) for one in ratio])


def _middle(box: Any) -> list[float] | None:
    return None if box is None else [float(v) for v in box.center]


def film_of(target: Measured, variants: Sequence[Variant], *, steps: int, **protocol: Any) -> None:
    """Record the film of a checkpoint, unless the run's folder has the very same."""
    wanted = {"variants": [CLEAN, *map(label, variants)], "steps": steps, **protocol}
    wanted["belief"] = True  # films of before have none
    if _recorded(target.place / FOLDER / ABOUT) == {"step": target.step, **wanted}:
        return
    model = target.load()
    step = int(model.num_timesteps)
    labels = target.labels(step)
    whose = whose_games(protocol["games"], labels["train_seed"])
    belief = believed(model, target.settings, seed=protocol["seed"], whose=whose)
    film = record_film(
        model,
        variants,
        steps=steps,
        settings=target.settings,
        labels=labels,
        belief=belief,
        **protocol,
    )
    write_film(film, target.place, step=step, protocol=wanted)


def _recorded(path: Path) -> dict[str, Any]:
    """What a film is of; nothing where there is none, or a damaged one."""
    try:
        about = json.loads(guard.read_text(path))
        return {"step": about["step"], **about["protocol"]}
    except (OSError, ValueError, KeyError, TypeError, UserError):
        return {}


def write_film(
    film: Film, folder: Path, *, step: int, protocol: Mapping[str, Any] | None = None
) -> Path:
    """Sprites and film.json below the run's folder, in place of an earlier film."""
    place = folder / FOLDER
    draft = place.with_name(place.name + ".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    pictures = []
    for i, name in enumerate(film.variants):
        frames = film.frames[:, 0] if i == 0 else overlay(film.frames[:, 0], film.frames[:, i])
        files = {"frames": f"{i}_frames.webp"}
        (draft / files["frames"]).write_bytes(sprite(frames))
        if film.maps is not None:
            files["masks"] = f"{i}_masks.webp"
            (draft / files["masks"]).write_bytes(sprite(quantized(film.maps[:, i])))
        change = [jensen_shannon(p[0], p[i]) for p in film.probs]
        pictures.append(
            {
                "variant": name,
                **files,
                "probs": np.round(film.probs[:, i], 3).tolist(),
                "values": np.round(film.values[:, i].astype(float), 3).tolist(),
                "change": np.round(change, 4).tolist(),
            }
        )
    about = {
        "version": 1,
        "step": step,
        "protocol": dict(protocol or {}),
        "size": list(film.frames.shape[2:4]),
        "grid": list(film.maps.shape[2:]) if film.maps is not None else None,
        "columns": COLUMNS,
        "view": film.view,
        "actions": list(film.actions),
        "chosen": film.chosen.tolist(),
        "scores": film.scores.tolist(),
        "games": film.games.tolist(),
        "tracked": film.tracked,
        "truth": film.truth,
        "pictures": pictures,
    }
    if film.belief is not None:
        places = np.round(film.belief, 1).transpose(1, 0, 2).tolist()
        about["belief"] = {"object": film.tracked, "pictures": places}
    write_atomically(draft / ABOUT, json.dumps(about, separators=(",", ":")) + "\n")
    shutil.rmtree(place, ignore_errors=True)
    draft.rename(place)
    return place


def overlay(clean: np.ndarray, varied: np.ndarray) -> np.ndarray:
    """What the variant changes (T, H, W, 4): transparent wherever both pictures are equal."""
    differs = (clean != varied).any(axis=-1)  # (T, H, W)
    alpha = np.where(differs, 255, 0).astype(np.uint8)[..., None]
    return np.concatenate([varied * differs[..., None], alpha], axis=-1)


def quantized(ratios: np.ndarray) -> np.ndarray:
    """Ratios to an even map as gray levels of 4 bits, 5 levels for each multiple: (..., h, w)."""
    level = np.clip(np.round(ratios * RATIO_STEPS), 0, LEVELS - 1)
    return (level * (255 // (LEVELS - 1))).astype(np.uint8)


def sprite(tiles: np.ndarray) -> bytes:
    """Tiles (T, H, W) or (T, H, W, C) side by side as one lossless WebP."""
    count, height, width = tiles.shape[:3]
    rows = -(-count // COLUMNS)
    sheet = np.zeros((rows * height, COLUMNS * width, *tiles.shape[3:]), np.uint8)
    for i, tile in enumerate(tiles):
        y, x = divmod(i, COLUMNS)
        sheet[y * height : (y + 1) * height, x * width : (x + 1) * width] = tile
    out = io.BytesIO()
    Image.fromarray(sheet).save(out, "WEBP", lossless=True, quality=60, method=3)
    return out.getvalue()
