"""A realistic sweep on disk without training: 2 methods x 3 seeds, baselines, twins, attention.

`python tests/analysis/fixture.py DIR` writes it for looking at the report by eye.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

VARIANTS = {  # name: (family, severity)
    "original": ("original", None),
    "constant_rectangle": ("published", None),
    "moving_square": ("published", None),
    "green_lines": ("published", 0.5),
    "diagonals": ("published", None),
}
OTHER_SEVERITIES = (0.25, 0.75, 1.0)  # besides the usual 0.5
SCORES = {  # method: variant -> mean score of a typical seed
    "ppo nature": (13.7, 13.4, 2.9, 1.9, 1.5),
    "ppo softplus + boxes": (15.6, 15.2, 14.9, 9.2, 2.0),
}
LONG = {  # six methods as people name them: longer than any plot has room for
    "ppo_impala_with_drac_consistency_on_random_gray_boxes": (10.9, 7.5, 10.8, 7.4, 2.8),
    "ppo_mask_21x21_contrastive_views_of_gray_boxes_tau_0.1": (8.7, 7.8, 8.3, 4.3, 1.7),
    "ppo_contrastive_views_of_gray_boxes_without_any_mask": (9.2, 6.7, 6.4, 6.3, 1.9),
    "ppo_rad_gray_boxes_on_the_training_batch": (5.6, 5.6, 5.3, 4.4, 1.8),
    "ppo_plain": (10.1, 1.7, 3.9, 1.8, 1.6),
    "ppo_mask_21x21_sparsity_and_decoder_of_the_masked_frame": (7.9, 1.0, 3.3, 2.3, 1.6),
}
BASELINES = {
    "random": (1.7, 1.7, 1.7, 1.7, 1.7),
    "scripted": (310.0, 310.0, 310.0, 310.0, 310.0),
    "scripted blind_to=distractor": (310.0, 300.0, 120.0, 40.0, 22.0),
}
OBJECTS = {"ball": 0.02, "paddle": 0.04, "bricks": 0.2, "distractor": 0.05, "background": 0.69}

EVIL = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>|`$x_{$'
TREND = """<svg xmlns="http://www.w3.org/2000/svg" width="640" viewBox="0 0 64 38">
<path d="M4 34 L24 20 L44 12 L60 8" stroke="#0072b2" fill="none"/></svg>"""


def games(
    rng: np.random.Generator, run: str, method: str, seed: int, means: dict, episodes: int
) -> pd.DataFrame:
    """Gamma-distributed scores: skewed and never negative, like real games."""
    augmentation = "boxes" if "boxes" in method else "none"
    rows = []
    for (name, severity), average in means.items():
        family = VARIANTS[name][0]
        scores = rng.gamma(8.0, max(average, 0.05) / 8.0, size=episodes).round()
        for i, score in enumerate(scores):
            rows.append(
                {
                    "run": run,
                    "method": method,
                    "algo": "ppo",
                    "encoder": "nature",
                    "attention": "softplus" if "softplus" in method else "none",
                    "auxiliary": "none",
                    "augmentation": augmentation,
                    "train_seed": seed,
                    "step": 500_000,
                    "variant": name,
                    "family": family,
                    "severity": severity,
                    "episode": i,
                    "eval_seed": 0,
                    "deterministic": False,
                    "sticky": 0.0,
                    "episode_return": float(score),
                    "length": int(800 + 40 * score),
                    "end": "game_over",
                }
            )
    return pd.DataFrame(rows)


def means_of(values: tuple, factor: float = 1.0) -> dict:
    """{(variant, severity): mean score}; the more green lines, the lower."""
    out = {}
    for (name, (_, severity)), value in zip(VARIANTS.items(), values, strict=True):
        out[(name, severity)] = value * factor
    for severity in OTHER_SEVERITIES:
        lost = (values[0] - values[3]) * (severity / 0.5) ** 0.4
        out[("green_lines", severity)] = factor * max(values[0] - lost, 0.3)
    return out


def write_run(folder: Path, method: str, seed: int, *, episodes: int = 20) -> None:
    """One run folder with everything the report can read."""
    rng = np.random.default_rng(100 * seed + len(method))
    masked = "softplus" in method or "mask_" in method
    folder.mkdir(parents=True)
    config = {
        "algo": {"_target_": "reprl.algorithms.PPO", "learning_rate": 2.5e-4, "n_steps": 128},
        "encoder": {"_target_": "reprl.encoders.nature"},
        "attention": {"_target_": "reprl.encoders.softplus"} if masked else None,
        "auxiliary": None,
        "augmentation": {"_target_": "reprl.augmentation.boxes"} if "boxes" in method else None,
        "env": {"game": "breakout", "variant": "original", "n_envs": 8},
        "total_steps": 500_000,
        "seed": seed,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    command = f"reprl train algo=ppo augmentation={'boxes' if masked else 'none'} seed={seed}"
    run = {"status": "done", "command": command, "config_hash": f"{seed:08x}", "method": method}
    (folder / "run.json").write_text(json.dumps(run))
    factor = float(rng.normal(1.0, 0.08))
    steps = np.arange(4_000, 500_001, 4_000)
    means = (SCORES | LONG)[method]
    score = 1.7 + (means[0] * factor - 1.7) * (1 - np.exp(-steps / 220_000))
    pd.DataFrame(
        {
            "step": steps,
            "rollout/ep_rew_mean": score + rng.normal(0, 0.35, len(steps)),
            "time/elapsed": steps / 520,
            "time/fps": rng.normal(520 - 70 * masked, 8, len(steps)),
        }
    ).to_csv(folder / "metrics.csv", index=False)
    (folder / "evaluation").mkdir()
    table = games(rng, folder.name, method, seed, means_of(means, factor), episodes)
    table.to_csv(folder / "evaluation" / "episodes.csv", index=False)
    write_twin(folder, method, seed, rng)
    if masked:
        write_attention(folder, method, seed, rng)


def write_twin(folder: Path, method: str, seed: int, rng: np.random.Generator) -> None:
    """Twin evaluation: one row per step of the shared game and variant."""
    rows = []
    for i, variant in enumerate(list(VARIANTS)[1:]):
        clean, score = (SCORES | LONG)[method][0], (SCORES | LONG)[method][i + 1]
        lost = 1 - min(score / clean, 1)
        for step in range(60):
            rows.append(
                {
                    "run": folder.name,
                    "method": method,
                    "train_seed": seed,
                    "variant": variant,
                    "step_in_game": step,
                    "js": abs(rng.normal(0.02 + 0.35 * lost, 0.03)),
                    "flip": int(rng.random() < 0.03 + 0.6 * lost),
                    "value_error": abs(rng.normal(0.05 + 0.8 * lost, 0.1)),
                    "feature_distance": abs(rng.normal(0.05 + 0.5 * lost, 0.03)),
                    "attention_shift": abs(rng.normal(0.3 * lost, 0.02)),
                }
            )
    pd.DataFrame(rows).to_csv(folder / "evaluation" / "twin.csv", index=False)


def write_attention(folder: Path, method: str, seed: int, rng: np.random.Generator) -> None:
    """Scores, labels and a contact sheet."""
    import cv2

    (folder / "attention").mkdir()
    rows = []
    for variant, dilution in (("original", 1.0), ("green_lines", 0.6)):
        for thing, area in OBJECTS.items():
            for metric in ("energy", "pointing", "auc"):
                chance = 0.5 if metric == "auc" else area
                lift = {"ball": 0.45, "paddle": 0.3, "bricks": 0.1}.get(thing, -0.3 * area)
                value = chance + lift * dilution + rng.normal(0, 0.02)
                low, high = value - 0.04, value + 0.04
                values = (thing, metric, value, low, high, chance, 0.9 * value, 1.0, 400)
                rows.append((folder.name, method, seed, 500_000, variant, *values))
        lag = ("ball", "lag", 2.0, 1.0, 3.0, *[np.nan] * 3, 400)
        rows.append((folder.name, method, seed, 500_000, variant, *lag))
        picture = np.zeros((210, 3 * 164, 3), np.uint8)
        picture[57:93, :, 2] = 200
        for panel in range(3):
            cv2.circle(picture, (164 * panel + 60, 120), 18 - 4 * panel, (0, 180, 255), -1)
        if variant == "green_lines":
            picture[100:190:16, 164:] = (50, 203, 102)
        cv2.imwrite(str(folder / "attention" / f"{variant}.png"), picture)
    names = "run,method,train_seed,step,variant,object,metric,value,low,high"
    names += ",chance,static,ceiling,n_frames"
    table = pd.DataFrame(rows, columns=names.split(","))
    table.to_csv(folder / "attention" / "scores.csv", index=False)
    write_faithfulness(folder, method, seed, rng)
    (folder / "attention" / "green_lines_over_training.svg").write_text(TREND)
    (folder / "attention" / "green_lines.mp4").write_bytes(b"not a real film")
    labels = {"labels": {"original": [], "green_lines": ["stuck"] if seed == 2 else []}}
    (folder / "attention" / "labels.json").write_text(json.dumps(labels))


def write_faithfulness(folder: Path, method: str, seed: int, rng: np.random.Generator) -> None:
    """Deletion and insertion, as `reprl attention faithfulness=true` leaves them."""
    rows = []
    for test, sign in (("deletion", 1.0), ("insertion", -1.0)):
        own = 0.5 + rng.normal(0, 0.02)
        rows.append((test, "attention", own, *[np.nan] * 3))
        for rival, gain in (("random", 0.2), ("shifted", 0.1)):
            rows.append((test, rival, own - sign * gain, gain, gain - 0.03, gain + 0.03))
    names = ["test", "condition", "value", "advantage", "advantage_low", "advantage_high"]
    table = pd.DataFrame(rows, columns=names).assign(
        run=folder.name,
        method=method,
        train_seed=seed,
        step=500_000,
        variant="green_lines",
        view="mask",
    )
    table.to_csv(folder / "attention" / "faithfulness.csv", index=False)


def write_sweep(root: Path, *, seeds: int = 3, episodes: int = 20) -> Path:
    """Two methods, several seeds, and the baselines measured under the same protocol."""
    for method in SCORES:
        for seed in range(1, seeds + 1):
            name = f"{method.replace(' + ', '-').replace(' ', '-')}-{seed}"
            write_run(root / name, method, seed, episodes=episodes)
    rng = np.random.default_rng(0)
    tables = [
        games(rng, name.replace(" ", "-"), name, -1, means_of(values), 40)
        for name, values in BASELINES.items()
    ]
    (root / "baselines" / "evaluation").mkdir(parents=True)
    path = root / "baselines" / "evaluation" / "episodes.csv"
    pd.concat(tables).to_csv(path, index=False)
    return root


def write_six(root: Path, *, seeds: int = 3, episodes: int = 20) -> Path:
    """Six methods of long names, two of them with a recorded game."""
    for i, method in enumerate(LONG):
        for seed in range(1, seeds + 1):
            write_run(root / f"{i}-{seed}", method, seed, episodes=episodes)
            path = root / f"{i}-{seed}" / "config.yaml"
            config = yaml.safe_load(path.read_text()) | {"auxiliary": None, "augmentation": None}
            if method != "ppo_plain":
                config["auxiliary"] = {"_target_": f"somewhere.Loss{i}"}
            path.write_text(yaml.safe_dump(config))
        if i < 2:
            write_film_of(root / f"{i}-1")
    rng = np.random.default_rng(0)
    table = games(rng, "random", "random", -1, means_of(BASELINES["random"]), 40)
    (root / "baselines" / "evaluation").mkdir(parents=True)
    table.to_csv(root / "baselines" / "evaluation" / "episodes.csv", index=False)
    return root


STEPS, LOUDEST = 30, 17  # of a film, and where its policy changes most
RED, GREEN = (255, 0, 0), (102, 203, 50)


def film(belief: bool = False):
    """A red ball that falls; a variant draws a green line; attention is even but for one cell."""
    from reprl.analysis.explorer.record import Film

    frames = np.zeros((STEPS, 2, 210, 160, 3), np.uint8)
    probs = np.tile([0.7, 0.1, 0.1, 0.1], (STEPS, 2, 1))
    maps = np.ones((STEPS, 2, 21, 21))
    for t in range(STEPS):
        frames[t, :, 50 + 4 * t : 54 + 4 * t, 80:84] = RED
        probs[t, 1] = [0.6, 0.2, 0.1, 0.1]
        maps[t, 1, 10, 5] = 3.0
    frames[:, 1, 120:122, 8:60] = GREEN
    probs[LOUDEST, 1] = [0.05, 0.85, 0.05, 0.05]
    return Film(
        variants=["original", "green_lines"],
        actions=("NOOP", "FIRE", "RIGHT", "LEFT"),
        frames=frames,
        probs=probs,
        values=np.linspace(0, 1, 2 * STEPS).reshape(STEPS, 2),
        chosen=np.zeros(STEPS, int),
        scores=np.arange(STEPS, dtype=float),
        games=np.zeros(STEPS, int),
        view="mask",
        maps=maps,
        tracked="ball",
        truth=[[82.0, 52.0 + 4 * t] for t in range(STEPS)],
    )


def write_film_of(folder: Path) -> Path:
    from reprl.analysis.explorer.record import write_film

    return write_film(film(), folder, step=500_000)


def evil_names(runs: Path) -> None:
    """Put markup into every name a user can choose."""
    run = runs / "ppo-softplus-boxes-1"
    for path in [run / "evaluation" / "episodes.csv", run / "evaluation" / "twin.csv"]:
        table = pd.read_csv(path).replace({"green_lines": f"g{EVIL}"})
        table.assign(method=f"m{EVIL}").to_csv(path, index=False)
    record = json.loads((run / "run.json").read_text())
    record |= {"method": f"m{EVIL}", "command": f"reprl train {EVIL}", "status": EVIL}
    (run / "run.json").write_text(json.dumps(record))
    labels = {"labels": {"original": [EVIL]}}
    (run / "attention" / "labels.json").write_text(json.dumps(labels))


if __name__ == "__main__":
    write_sweep(Path(sys.argv[1]))
