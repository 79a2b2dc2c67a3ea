"""Films: pictures without loss, numbers of the twin evaluation, damage is a note."""

import base64
import io
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from reprl.algorithms import PPO
from reprl.analysis.explorer.embed import embedded_films
from reprl.analysis.explorer.record import (
    COLUMNS,
    FOLDER,
    overlay,
    quantized,
    record_film,
    write_film,
)
from reprl.analysis.load import collect
from reprl.envs import make_vec_env
from reprl.envs.variation import find
from reprl.evaluation import twin_evaluation


@pytest.fixture
def runs(synthetic: ModuleType, sweep: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(sweep, tmp_path / "runs"))
    synthetic.write_film_of(folder / "ppo-nature-1")
    return folder


def films(runs: Path) -> tuple[dict[str, Any] | None, list[str]]:
    results = collect([runs])
    order = list(dict.fromkeys(run.method for run in results.runs))
    return embedded_films(results, order), results.warnings


def opened(uri: str) -> np.ndarray:
    raw = base64.b64decode(uri.partition(",")[2])
    with Image.open(io.BytesIO(raw)) as image:
        return np.asarray(image.convert("RGBA"))


def tile(sheet: np.ndarray, index: int, height: int, width: int) -> np.ndarray:
    y, x = divmod(index, COLUMNS)
    return sheet[y * height : (y + 1) * height, x * width : (x + 1) * width]


def test_clean_picture_and_overlay_give_the_varied_one_back(
    runs: Path, synthetic: ModuleType
) -> None:
    found, warnings = films(runs)
    assert found is not None
    assert warnings == []
    (film,) = found["films"]
    made = synthetic.film()
    clean, varied = (opened(p["frames"]) for p in film["pictures"])
    for step in (0, 17, 29):
        below, above = tile(clean, step, 210, 160), tile(varied, step, 210, 160)
        np.testing.assert_array_equal(below[..., :3], made.frames[step, 0])
        seen = np.where(above[..., 3:] == 255, above[..., :3], below[..., :3])
        np.testing.assert_array_equal(seen, made.frames[step, 1])
    assert (varied[..., 3] == 255).mean() < 0.01  # what is equal is not stored again
    change = film["pictures"][1]["change"]
    assert int(np.argmax(change)) == synthetic.LOUDEST


def test_attention_is_kept_in_sixteen_levels_of_its_multiple() -> None:
    ratios = np.array([[[0.0, 0.2, 1.0, 2.0, 3.0, 9.0]]])
    assert (quantized(ratios)[0, 0] / 17).tolist() == [0, 1, 5, 10, 15, 15]
    assert overlay(np.zeros((1, 2, 2, 3), np.uint8), np.zeros((1, 2, 2, 3), np.uint8)).max() == 0


def break_json(place: Path) -> None:
    (place / "film.json").write_text("{")


def shorten(place: Path) -> None:
    about = json.loads((place / "film.json").read_text())
    about["pictures"][1]["probs"].pop()
    (place / "film.json").write_text(json.dumps(about))


def not_a_number(place: Path) -> None:
    about = json.loads((place / "film.json").read_text())
    about["pictures"][1]["values"][3] = float("nan")
    (place / "film.json").write_text(json.dumps(about))


def lead_out(place: Path) -> None:
    about = json.loads((place / "film.json").read_text())
    about["pictures"][0]["frames"] = "../../config.yaml"
    (place / "film.json").write_text(json.dumps(about))


def other_picture(place: Path) -> None:
    Image.new("RGB", (30, 30)).save(place / "1_frames.webp")


def no_picture(place: Path) -> None:
    (place / "1_frames.webp").write_bytes(b"<svg onload=alert(1)>")


def missing(place: Path) -> None:
    (place / "0_masks.webp").unlink()


@pytest.mark.parametrize(
    "damage", [break_json, shorten, not_a_number, lead_out, other_picture, no_picture, missing]
)
def test_a_damaged_film_is_a_note_and_the_others_are_shown(
    runs: Path, synthetic: ModuleType, damage: Any
) -> None:
    synthetic.write_film_of(runs / "ppo-softplus-boxes-1")
    damage(runs / "ppo-nature-1" / FOLDER)
    found, warnings = films(runs)
    assert found is not None
    assert [film["run"] for film in found["films"]] == ["ppo-softplus-boxes-1"]
    assert [w for w in warnings if w.startswith("ppo-nature-1: its recorded game cannot be shown")]


def test_another_run_stands_in_for_a_damaged_one(runs: Path, synthetic: ModuleType) -> None:
    synthetic.write_film_of(runs / "ppo-nature-2")
    no_picture(runs / "ppo-nature-1" / FOLDER)
    found, _ = films(runs)
    assert found is not None
    assert [film["run"] for film in found["films"]] == ["ppo-nature-2"]


def test_films_beyond_the_budget_are_left_out(
    runs: Path, synthetic: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic.write_film_of(runs / "ppo-softplus-boxes-1")
    one, _ = films(runs)
    assert one is not None
    monkeypatch.setattr(
        "reprl.analysis.explorer.embed.BUDGET", len(json.dumps(one["films"][0])) + 10
    )
    found, warnings = films(runs)
    assert found is not None
    assert len(found["films"]) == 1
    assert "1 recorded games were left out to keep the page small." in warnings


@pytest.mark.slow
def test_a_film_is_of_the_games_of_the_twin_evaluation(tmp_path: Path) -> None:
    env = make_vec_env("original", n_envs=2, seed=0)
    model = PPO("CnnPolicy", env, seed=3, n_steps=8, batch_size=8)
    variants = [find("green_lines")]
    film = record_film(model, variants, steps=25)
    want = twin_evaluation(model, ["green_lines"], steps=25)
    place = write_film(film, tmp_path, step=0)
    about = json.loads((place / "film.json").read_text())
    assert film.variants == ["original", "green_lines"]
    np.testing.assert_allclose(about["pictures"][1]["change"], want["js"], atol=6e-5)
    gap = np.abs(np.diff(film.values, axis=1))[:, 0]
    np.testing.assert_allclose(gap, want["value_error"], rtol=1e-5, atol=1e-6)
    assert (film.frames[:, 0] != film.frames[:, 1]).any(axis=(1, 2, 3)).all()
    assert film.view == "gradient"
    assert film.maps is not None
    assert film.maps.shape == (25, 2, 21, 21)
    assert film.maps.mean() == pytest.approx(1.0, abs=0.05)  # multiples of an even map
    assert film.truth[-1] is None or 0 <= film.truth[-1][0] <= 160
    env.close()
