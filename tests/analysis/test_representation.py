"""The report of representations: means over runs, what a variant takes away, tables on the page."""

import re
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from reprl.analysis.gap import played
from reprl.analysis.load import collect
from reprl.analysis.readability import features_layer, over_runs
from reprl.analysis.report import write_report
from reprl.analysis.representation import (
    interventions_table,
    probe_table,
    smallest,
    taken_away,
    usual_player,
)
from reprl.schema import BREAKING, FILES, INTERVENTIONS, LAYERS, PROBES

VARIANTS = ("original", "green_lines", "diagonals")
LEFT = {"original": 1.0, "green_lines": 0.5, "diagonals": -3.0}  # R2 of the ball's place


def identity(run: Path, method: str, seed: int) -> dict:
    about = {"run": run.name, "method": method, "train_seed": seed, "step": 500_000}
    return about | {"player": "scripted", "eval_seed": 0}


def write_representation(run: Path, method: str, seed: int) -> None:
    """Measured files of a run as `probe`, `layers`, `intervene` and `breaking` leave them."""
    about = identity(run, method, seed)
    probes, layers = [], []
    for variant in VARIANTS:
        for source, layer, inputs in (
            ("agent", "cnn.4", 3136),
            ("agent", "linear.0", 512),
            ("agent", "action_net", 4),
            ("pixels", "picture", 7056),
            ("untrained", "linear.0", 512),
            ("shuffled", "linear.0", 512),
        ):
            row = about | {"variant": variant, "source": source, "layer": layer, "inputs": inputs}
            row |= {"columns": 1, "n_fit": 200, "n_read": 100, "n_games": 6, "severity": None}
            value = LEFT[variant] * (0.9 + 0.01 * seed) if source == "agent" else 0.2
            for label in ("ball_x", "ball_y"):
                probes.append(row | {"label": label, "unit": "px", "r2": value, "error": 3.0,
                                     "correlation": 0.9})  # fmt: skip
            probes.append(row | {"label": "ball_dx", "unit": "yes/no", "balanced_accuracy": 0.7})
        if variant == "original":
            continue
        for layer in ("cnn.4", "linear.0", "action_net"):
            row = about | {"variant": variant, "layer": layer, "inputs": 5, "cka": 0.5}
            row |= {"cosine": 0.4, "distance": 2.0, "policy_returned": 1.0, "value_returned": 1.0}
            row |= {"policy_offset": 0.3, "value_offset": 0.2, "blame": 0.0, "js": 0.1}
            layers.append(row | {"flips": 0.2, "value_error": 0.3, "n_frames": 100, "n_games": 4})
    changed = []
    for thing, change in (("ball", "left"), ("bricks", "row 1")):
        row = about | {"variant": "original", "object": thing, "change": change, "js": 0.2}
        row |= {"flips": 0.3, "value_error": 0.1, "view": "gradient", "claim": 0.1}
        row |= {"claim_density": 2.0, "rank_correlation": 0.5, "n_frames": 50, "excluded": 3}
        changed.append(row)
    broke = []
    for height, broken in ((1, 0), (2, 1)):
        row = {k: v for k, v in about.items() if k != "player"}
        row |= {"variant": f"rectangle_{height}x2", "height": height, "width": 2, "row": 60}
        row |= {"column": 20, "gray": 142, "js": 0.2, "flips": 0.3, "tried": 24, "clean": 14.0}
        broke.append(row | {"score": 3.0, "share": 0.2, "broken": broken, "episodes": 5})
    for kind, schema, rows in (
        ("probes", PROBES, probes),
        ("layers", LAYERS, layers),
        ("interventions", INTERVENTIONS, changed),
        ("breaking", BREAKING, broke),
    ):
        frame = pd.DataFrame(rows, columns=list(schema.columns))
        frame.to_csv(run / FILES[kind], index=False)


@pytest.fixture(scope="module")
def runs(synthetic: ModuleType, sweep: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(sweep, tmp_path_factory.mktemp("represented") / "runs"))
    for seed in (1, 2, 3):
        write_representation(folder / f"ppo-nature-{seed}", "ppo nature", seed)
    return folder


def test_means_over_runs_by_hand():
    rows = pd.DataFrame(
        {
            "method": "m",
            "variant": "original",
            "player": "agent",
            "source": "agent",
            "layer": "linear.0",
            "label": "ball_x",
            "unit": "px",
            "train_seed": [1, 2, 3, 3],
            "r2": [0.1, 0.2, 0.2, 0.4],  # the last two are one run, twice
            "error": [1.0, 2.0, 3.0, 3.0],
            "correlation": 0.5,
            "balanced_accuracy": np.nan,
        }
    )
    [row] = over_runs(rows).to_dict("records")
    assert row["n_seeds"] == 3
    assert row["r2"] == pytest.approx(0.2)
    # standard deviation 0.1 over three runs: t(0.975, 2) = 4.3027
    assert row["r2_high"] - row["r2"] == pytest.approx(4.3027 * 0.1 / np.sqrt(3), rel=1e-4)
    assert np.isnan(row["balanced_accuracy"])
    alone = over_runs(rows[:1]).iloc[0]
    assert np.isnan(alone["r2_low"])


def test_the_layer_of_the_heads_is_the_last_wide_one(runs):
    probes = collect([runs]).probes
    assert features_layer(probes) == "linear.0"


@pytest.mark.parametrize(
    ("layers", "read"),
    [
        (["q_net.features_extractor.linear.0", "q_net.q_net.0"], 0),
        (["linear.0", "vf_features_extractor.linear.0", "action_net", "value_net"], 0),
        (["actor.features_extractor.linear.0", "critic.features_extractor.linear.0"], 0),
        (["critic.features_extractor.linear.0", "actor.mu", "critic.qf0.0"], 0),
        (["linear.0", "mlp_extractor.policy_net.0", "action_net"], 1),
    ],
)
def test_no_head_and_no_encoder_of_the_value_alone_is_that_layer(layers, read):
    probes = pd.DataFrame({"source": "agent", "layer": layers, "inputs": 8})
    assert features_layer(probes) == layers[read]


def test_what_a_variant_takes_away_is_a_point_a_run(runs):
    results = collect([runs])
    table = played(results.episodes)
    points = taken_away(results.probes, table, "ball")
    assert {(p["seed"], p["variant"]) for p in points} == {
        (seed, variant) for seed in (1, 2, 3) for variant in VARIANTS[1:]
    }
    at = {(p["seed"], p["variant"]): p for p in points}
    assert at[1, "green_lines"]["readable"] == pytest.approx(0.5)
    assert at[2, "diagonals"]["readable"] == 0  # worse than knowing nothing is nothing
    scores = table.scores.loc[("ppo nature", 1)]
    random = table.scores.loc["random"].mean()
    kept = (scores["green_lines"] - random["green_lines"]) / (
        scores["original"] - random["original"]
    )
    assert at[1, "green_lines"]["kept"] == pytest.approx(kept)
    assert taken_away(results.probes, table, None) == []
    assert taken_away(pd.DataFrame(), table, "ball") == []


def test_one_kind_of_play_is_shown():
    rows = pd.DataFrame({"run": ["a", "b", "a"], "player": ["agent", "agent", "scripted"]})
    assert set(usual_player(rows)["player"]) == {"agent"}
    even = pd.DataFrame({"run": ["a", "a"], "player": ["agent", "scripted"]})
    assert set(usual_player(even)["player"]) == {"scripted"}


def test_clean_and_variant_agent_and_first_weights_stand_side_by_side(runs):
    frame = probe_table(collect([runs]).probes).frame
    shown = frame[["layer", "source", "variant"]].to_numpy().tolist()
    clean_first = ["original", "green_lines", "diagonals"]
    assert shown == [
        *(["cnn.4", "agent", variant] for variant in clean_first),
        *(["linear.0", "agent", variant] for variant in clean_first),
        *(["linear.0", "untrained", variant] for variant in clean_first),
        *(["action_net", "agent", variant] for variant in clean_first),
        *(["picture", "pixels", variant] for variant in clean_first),
    ]


def test_controls_of_interventions_come_last_and_an_object_at_a_time():
    columns = {"run": "r", "step": 1, "player": "agent", "train_seed": 1, "eval_seed": 0}
    columns |= {"flips": 0.0, "value_error": 0.0, "claim_density": 1.0, "rank_correlation": 0.5}
    rows = [
        columns | {"method": method, "object": "ball", "change": change, "js": js}
        for method in ("scripted blind_to=ball", "ppo nature")
        for change, js in (("left", 0.1), ("right", 0.3))
    ]
    frame = interventions_table(pd.DataFrame(rows)).frame
    assert frame[["method", "change"]].to_numpy().tolist() == [
        ["ppo nature", "left"],
        ["ppo nature", "right"],
        ["scripted blind_to=ball", "any"],
    ]
    assert frame["js"].tolist() == pytest.approx([0.1, 0.3, 0.2])


def test_the_smallest_is_the_one_that_broke(runs):
    rows = list(smallest(collect([runs]).breaking))
    assert len(rows) == 3
    assert all(row["height"] == 2 for row in rows)


def test_the_page_has_tables_and_the_figure(runs, tmp_path):
    page, results = write_report([runs], tmp_path / "report")
    text = page.read_text()
    assert not [w for w in results.warnings if "probes" in w or "layers" in w]
    for part in ('id="representation"', 'data-plot="taken"', 'id="table-probes"'):
        assert part in text
    for part in ("table-layers", "table-interventions", "table-breaking"):
        assert f'id="{part}"' in text
    table = pd.read_csv(tmp_path / "report" / "tables" / "probes.csv")
    own = table[(table["source"] == "agent") & (table["layer"] == "linear.0")]
    clean = own[own["variant"] == "original"].iloc[0]
    assert clean["ball_x"] == pytest.approx(0.92)
    assert clean["n_seeds"] == 3
    assert clean["ball_x_low"] < 0.92 < clean["ball_x_high"]
    assert set(table["source"]) == {"agent", "untrained", "pixels"}
    assert (tmp_path / "report" / "figures" / "taken_away.svg").is_file()
    assert re.search(r"2x2 cells at 60, 20, gray 142", text)


def test_a_reader_sees_clean_beside_the_chosen_variant(runs, tmp_path, shared):
    shared.open(write_report([runs], tmp_path / "report", figures=False)[0])
    for variant in VARIANTS[1:]:
        shown = shared.run(
            f"""(() => {{
              const select = document.querySelector("select.variant");
              select.value = {variant!r};
              select.dispatchEvent(new Event("change"));
              return [...document.querySelectorAll("#table-probes tbody tr")]
                .filter((row) => !row.hidden).map((row) => row.dataset.variant);
            }})()"""
        )
        assert set(shown) == {"original", variant}


def test_a_page_without_probes_has_no_such_part(sweep, tmp_path):
    page, _ = write_report([sweep], tmp_path / "report", figures=False)
    assert 'id="representation"' not in page.read_text()
