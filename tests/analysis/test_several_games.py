"""Several games in one report: one fixed normalisation, worked by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from reprl.analysis.load import collect
from reprl.analysis.report import compose
from reprl.analysis.several_games import MEAN, MEANS, REFERENCES, normalised
from reprl.envs.machine import games

SCORES = {
    ("breakout", 1): (30.5, 1.7),
    ("breakout", 2): (59.3, 1.7),
    ("pong", 1): (14.6, -20.7),
    ("tetris", 1): (10.0, 4.0),
}


def folder(place: Path, game: str, seed: int) -> Path:
    """A run with two games on two variants."""
    method = "ppo-nature" if game == "breakout" else f"{game}-ppo-nature"
    home = place / game / f"{method}_s{seed}"
    (home / "evaluation").mkdir(parents=True)
    config = {"seed": seed, "env": {"game": game, "variant": "original"}}
    (home / "config.yaml").write_text(yaml.safe_dump(config))
    (home / "run.json").write_text(json.dumps({"method": method, "status": "finished"}))
    rows = [
        {"run": home.name, "method": method, "algo": "ppo", "encoder": "nature"}
        | {"attention": "none", "auxiliary": "none", "augmentation": "none", "train_seed": seed}
        | {"step": 8, "variant": variant, "family": family, "severity": severity, "episode": e}
        | {"eval_seed": 0, "deterministic": False, "sticky": 0.0, "length": 100}
        | {"episode_return": score + 2 * e - 1, "end": "game_over", "game_seed": 5 + e}
        for (variant, family, severity), score in zip(
            (("original", "original", None), ("blur", "picture", 0.5)),
            SCORES[game, seed],
            strict=True,
        )
        for e in range(2)
    ]
    pd.DataFrame(rows).to_csv(home / "evaluation" / "episodes.csv", index=False)
    return home


def test_one_row_a_game_and_their_mean(tmp_path: Path) -> None:
    for game, seed in SCORES:
        folder(tmp_path, game, seed)
    found = collect([tmp_path])
    table = found.several.set_index("game")
    assert set(found.several["method"]) == {"ppo-nature"}
    assert table.loc["breakout", ["n_seeds", "clean"]].tolist() == [2, pytest.approx(44.9)]
    assert table.loc["breakout", "clean_share"] == pytest.approx(1.5)  # 1 and 2 times a human
    assert table.loc["breakout", "variants_share"] == pytest.approx(0)
    assert table.loc["pong", "clean_share"] == pytest.approx(1)
    assert pd.isna(table.loc["tetris", "clean_share"])
    assert table.loc[MEAN, "clean_share"] == pytest.approx(1.25)  # of the two that have a scale
    assert any("reported in full" in w for w in found.warnings)
    page, tables, *_ = compose(found)
    assert "Several games, by one normalisation" in page
    assert len(tables["games"].frame) == 4
    alone = collect([tmp_path / "breakout"])
    assert alone.several.empty


def test_the_constants_are_of_games_there_are() -> None:
    assert set(REFERENCES) <= set(games())
    assert all(human > random for random, human in REFERENCES.values())
    assert normalised("pong", -20.7) == 0


def test_procgen_has_its_own_constants_and_mean(tmp_path: Path) -> None:
    """Easy StarPilot is 2.5 to 64 points, hard 1.5 to 35; easy CoinRun 5 to 10."""
    assert normalised("procgen/starpilot", 64) == 1
    assert normalised("procgen/starpilot (hard)", 35) == 1
    assert pd.isna(normalised("procgen/starpilot (extreme)", 35))
    with pytest.MonkeyPatch.context() as patch:
        for game, pair in {
            "procgen/coinrun": (10.0, 7.5),
            "procgen/starpilot": (33.25, 2.5),
            "pong": (14.6, -20.7),
        }.items():
            patch.setitem(SCORES, (game, 1), pair)
            place = folder(tmp_path, game, 1)
            record = place / "run.json"
            record.write_text(record.read_text().replace("procgen/", "procgen-"))
    table = collect([tmp_path]).several.set_index("game")
    assert set(table["method"]) == {"ppo-nature"}
    assert table.loc["procgen/coinrun", "variants_share"] == pytest.approx(0.5)
    procgen, ale = (table.loc[MEANS[kind]] for kind in (True, False))
    assert procgen[["clean_share", "variants_share"]].tolist() == pytest.approx([0.75, 0.25])
    assert ale[["clean_share", "variants_share"]].tolist() == pytest.approx([1, 0])
