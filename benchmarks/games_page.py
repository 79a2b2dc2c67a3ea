"""Other games and other algorithms for docs/results.md, from results/games and results/algorithms.

games of agents elsewhere than in Breakout by PPO or imitation -> the tables that
`benchmarks.results_page` puts on the page.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from reprl.analysis.pairwise import Difference, difference
from reprl.analysis.stats import Sample
from reprl.schema import CLEAN

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "results" / "algorithms"


def games_table(games: Iterable[str], variants: dict[str, str]) -> str:
    """Mean points of every player of other games: seed by seed, or with their standard errors."""
    lines = ["| game | player | " + " | ".join(variants.values()) + " |"]
    lines.append("|---" * (2 + len(variants)) + "|")
    for game in games:
        place = ROOT / "results" / "games" / game
        played_ = pd.concat(map(pd.read_csv, sorted(place.glob("*/evaluation/episodes.csv"))))
        for method, rows in played_.groupby("method", sort=False):
            cells = [_by_seed(rows[rows["variant"] == v]) for v in variants]
            name = str(method).removeprefix(f"{game.replace('/', '-')}-")
            lines.append(f"| {game.rpartition('/')[2]} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def coinrun(method: str) -> list[Path]:
    """The runs of a method in CoinRun, by their folders' name without the seed."""
    return sorted((ROOT / "results" / "games" / "procgen" / "coinrun").glob(f"{method}-s?"))


def coinrun_points(method: str, variant: str) -> list[float]:
    """Mean points of each seed's games in CoinRun."""
    games = [pd.read_csv(f / "evaluation" / "episodes.csv") for f in coinrun(method)]
    return [float(g.loc[g["variant"] == variant, "episode_return"].mean()) for g in games]


def coinrun_against(method: str, other: str, variant: str) -> Difference:
    """The difference of two methods' points in CoinRun."""
    first, second = (Sample(np.array(coinrun_points(m, variant))) for m in (method, other))
    return difference(first, second)


def coinrun_random(variant: str) -> float:
    """Mean points of random play in CoinRun."""
    place = ROOT / "results" / "games" / "procgen" / "coinrun"
    played_ = pd.concat(map(pd.read_csv, sorted(place.glob("*/evaluation/episodes.csv"))))
    chosen = (played_["method"] == "random") & (played_["variant"] == variant)
    return float(played_.loc[chosen, "episode_return"].mean())


def coinrun_clipped(method: str) -> list[float]:
    """The share of actions that the updates of the log's first row clipped, of each seed."""
    curves = [pd.read_csv(f / "metrics.csv")["train/clip_fraction"] for f in coinrun(method)]
    return [float(curve.dropna().iloc[0]) for curve in curves]


def _by_seed(rows: pd.DataFrame) -> str:
    """The mean of each training seed's games, or of one's with its standard error."""
    if not len(rows):
        return ""
    means = rows.groupby("train_seed")["episode_return"].mean()
    if len(means) > 1:
        return " / ".join(f"{x:.1f}" for x in means)
    points = rows["episode_return"]
    return f"{points.mean():.1f} ± {points.sem():.1f}"


def procgen_games() -> str:
    """Points on the levels of training and on others."""
    levels = {CLEAN: "training levels", "unseen": "unseen levels"}
    return games_table(("procgen/coinrun", "procgen/starpilot"), levels)


def ale_games() -> str:
    """Points in ALE's other games, clean and drawn over."""
    shown = (CLEAN, "green_lines", "noise")
    return games_table(("pong", "freeway", "boxing"), {v: v for v in shown})


ALGORITHMS = {  # folders of results/algorithms: the task, who plays it
    "cartpole_ppo_s": ("CartPole", "`experiment=cartpole total_steps=60_000`"),
    "cartpole_reinforce_s": ("CartPole", "`experiment=cartpole_reinforce`"),
    "cartpole_bare_s": ("CartPole", "the same, `algo.baseline=false`"),
    "cartpole_a2c_s": ("CartPole", "`env=gymnasium algo=a2c env.n_envs=8 total_steps=200_000`"),
    "cartpole_ppg_s": (
        "CartPole",
        "`experiment=cartpole algo=ppg algo.value_epochs=20 algo.n_policy_phases=8 "
        "total_steps=60_000`",
    ),
    "cartpole_idaac_s": ("CartPole", "`experiment=cartpole algo=idaac total_steps=60_000`"),
    "cartpole_dqn_s": ("CartPole", "`experiment=cartpole_dqn`"),
    "cartpole_qrdqn_s": ("CartPole", "`experiment=cartpole_dqn algo=qrdqn algo.n_quantiles=10`"),
    "pendulum_sac_s": ("Pendulum, twenty at once", "`experiment=pendulum`"),
    "pendulum_td3_s": ("Pendulum, twenty at once", "`experiment=pendulum algo=td3`"),
    "pendulum_ddpg_s": ("Pendulum, twenty at once", "`experiment=pendulum algo=ddpg`"),
    "reacher_sac_s": ("MuJoCo's Reacher, twenty at once", "`experiment=reacher`"),
    "minigrid_s": ("MiniGrid's empty room", "`experiment=minigrid`"),
    "cartpole_memory_s": ("CartPole without velocities", "`experiment=cartpole_memory`"),
    "cartpole_gru_s": ("CartPole without velocities", "the same, `algo.memory=gru`"),
    "cartpole_plain_s": ("CartPole without velocities", "the same without memory"),
    "one_frame_memory_s": ("Breakout, one picture at a time", "`experiment=one_frame`"),
    "one_frame_plain_s": ("Breakout, one picture at a time", "the same without memory"),
    "dqn": ("Breakout, pictures of 44x44", "`experiment=dqn env.size=44`"),
    "curl": ("Breakout, pictures of 44x44", "`experiment=curl env.size=44`"),
    "qrdqn_short": ("Breakout, pictures of 44x44", "QR-DQN, a rate of 1e-4"),
    "qrdqn_long": ("Breakout, pictures of 44x44", "QR-DQN, a rate of 2.5e-4"),
}


def algorithms() -> str:
    """Mean points of every seed's games, of algorithms other than PPO and imitation."""
    heads = ("task", "agent", "steps", "games a seed", "points, seed by seed", "random play")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, (task, agent) in ALGORITHMS.items():
        files = sorted(PLACE.glob(f"{name}*/evaluation/episodes.csv"))
        if not files:
            continue  # announced, and not run yet
        games = pd.concat(map(pd.read_csv, files))
        for variant, rows in games.groupby("variant", sort=False):
            seeds_ = rows.groupby("train_seed")
            points = " / ".join(f"{x:.1f}" for x in seeds_["episode_return"].mean())
            lengths = [f"{x:,}" for x in seeds_["step"].max()]
            steps = lengths[0] if len(set(lengths)) == 1 else " / ".join(lengths)
            where = task if variant == CLEAN else f"{task}, `{variant}`"
            chance = f"{by_chance(task, str(variant)):.1f}"
            cells = (where, agent, steps, str(seeds_.size().max()), points, chance)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def by_chance(task: str, variant: str) -> float:
    """Mean points of random play at a task of the table."""
    if task.startswith("Breakout"):
        games = pd.read_csv(ROOT / "analysis" / "random_play.csv")
        games = games[(games["game"] == "breakout") & games["severity"].isna()]
        if variant not in set(games["variant"]):
            variant = CLEAN  # who plays at random does not look
    else:
        task = task.removesuffix(" without velocities")  # nor for velocities
        beside = [name for name, (other, _) in ALGORITHMS.items() if other == task]
        files = [f for n in beside for f in PLACE.glob(f"{n}*/baselines/evaluation/episodes.csv")]
        games = pd.concat(map(pd.read_csv, sorted(files)))
    return float(games.loc[games["variant"] == variant, "episode_return"].mean())


def explored(game: str) -> pd.DataFrame:
    """What `benchmarks.exploration` found in a game."""
    rows = pd.read_csv(PLACE / "exploration.csv")
    return rows[rows["game"] == game]


def curiosity() -> str:
    """Crossings of Freeway's road in training that pays nothing, with curiosity and without."""
    rows = explored("freeway")
    lines = ["| game | agent | steps | crossings, seed by seed |", "|---" * 4 + "|"]
    for (game, method), part in rows.groupby(["game", "method"], sort=False):
        crossings = " / ".join(f"{x:.0f}" for x in part.sort_values("seed")["points"])
        lines.append(f"| {game} | {method} | {part['steps'].iloc[0]:,} | {crossings} |")
    return "\n".join(lines)


TABLES = {
    "algorithms": algorithms,
    "curiosity": curiosity,
    "procgen": procgen_games,
    "other games": ale_games,
}
