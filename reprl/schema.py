"""The columns, kinds and keys of every measured table, and the words that name metrics and states.

Whoever writes or reads one of these files takes its columns from here; `reprl/tables.py` does the
reading and writing. All of it is data in files that exist: names may be added, never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reprl.envs.defaults import CLEAN as CLEAN

# Prefixes of the columns of metrics.csv.
ROLLOUT, VALIDATION_PREFIX = "rollout/", "validation/"
TRAINING_SCORE = f"{ROLLOUT}score"
VALIDATION_SCORE = f"{VALIDATION_PREFIX}score"
ELAPSED = "time/elapsed"
MASK_POINTING, MASK_ENERGY = "mask/pointing/", "mask/energy/"  # each with a variant
MASK_CHANCE = "mask/chance"

STATUSES = ("running", "finished", "interrupted", "failed", "killed")  # of a run
ATTRIBUTIONS = ("mask", "gradient", "integrated", "perturbation", "gradcam")
LOOKS_EVERY = {"perturbation": 4}  # agent steps between two looks, where looking is slow

# What may have become of an attention mask, a label for each look at it.
MASK_STATES = {
    "black": "nothing gets through",
    "saturated": "even its darkest cells let everything through",
    "open": "it lets nearly everything through",
    "stuck": "its peak stays in one place",
    "border": "only its outermost cells stand out",
}
LABELS = tuple(MASK_STATES)
OPEN_MEAN = 0.9
# With all other cells alike, one shut cell of 7x7 leaves an entropy of 0.995 and five shut cells of
# 21x21 one of 0.998: a mask that hides even a little thing in that way is not open.
OPEN_ENTROPY = 0.998

INTEGERS = (
    *("train_seed", "step", "episode", "eval_seed", "game_seed", "length"),
    *("step_in_game", "flip"),
    *("inputs", "columns", "n_fit", "n_read"),
    *("height", "width", "tried", "episodes", "excluded", "broken"),
)
NUMBERS = ("sticky", "episode_return", "value")
MAYBE = (  # numbers that may be absent
    *("severity", "js", "value_error", "feature_distance", "attention_shift"),
    *("low", "high", "chance", "static", "ceiling", "n_frames", "n_games"),
    *("advantage", "advantage_low", "advantage_high"),
    *("r2", "error", "correlation", "balanced_accuracy"),
    *("cka", "cosine", "distance", "policy_returned", "value_returned"),
    *("policy_offset", "value_offset", "blame", "claim", "claim_density", "rank_correlation"),
    *("flips", "gray", "row", "column", "clean", "score", "share"),
)
NUMERIC = (*INTEGERS, *NUMBERS, *MAYBE)
FLAGS = ("deterministic",)

# Who played, what was played, and how.
GIVEN = "_given"  # under which a part remembers how it was made
PARTS = ("algo", "encoder", "attention", "auxiliary", "augmentation")
# config groups that choose a spec: those parts, and what is no column of a table
CHOSEN = (*PARTS, "intrinsic", "shaping")
IDENTITY = ("run", "method", *PARTS, "train_seed", "step")
GAME = ("variant", "family", "severity", "episode", "eval_seed", "deterministic", "sticky")
# What makes two rows the same game under the same protocol; a run's folder may be renamed.
SAME_GAME = (
    *("method", "step", "variant", "severity", "episode", "eval_seed", "game_seed"),
    *("deterministic", "sticky"),
)
LOOKED_AT = ("run", "method", "train_seed", "step", "variant", "view", "player")
TWIN_MEASURES = ("js", "flip", "value_error", "feature_distance", "attention_shift")


@dataclass(frozen=True)
class TableSchema:
    """One kind of measured file."""

    columns: tuple[str, ...]
    key: tuple[str, ...]  # rows alike in these are one measurement, and the newest counts
    needed: tuple[str, ...]  # what the report cannot do without, in files of any age
    measures: tuple[str, ...] = ()  # numbers that the report shows where they are there
    single: bool = True  # a measurement is one row, not all rows of its key together
    absent: Mapping[str, str] = field(
        default_factory=dict
    )  # what older files mean without a column

    @property
    def numbers(self) -> tuple[str, ...]:
        """The needed columns that must be finite numbers."""
        return tuple(c for c in self.needed if c in NUMERIC)


EPISODES = TableSchema(
    columns=(*IDENTITY, *GAME, "episode_return", "length", "end", "game_seed"),
    key=SAME_GAME,
    needed=("run", "method", "train_seed", "variant", "episode_return"),
)
TWIN = TableSchema(
    columns=(*IDENTITY, *GAME, "step_in_game", *TWIN_MEASURES, "game_seed"),
    key=(*SAME_GAME, "step_in_game"),
    needed=("run", "method", "train_seed", "variant", "step_in_game"),
    measures=TWIN_MEASURES,
)
SCORES = TableSchema(
    columns=(
        *LOOKED_AT,
        *("object", "metric", "value", "low", "high", "chance", "static", "ceiling"),
        *("n_frames", "n_games"),
    ),
    key=("step", "variant", "view", "player"),
    needed=("run", "method", "train_seed", "variant", "object", "metric", "value"),
    measures=("low", "high", "chance", "static", "ceiling", "n_frames"),
    single=False,
    absent={"player": "agent"},
)
FAITHFULNESS = TableSchema(
    columns=(
        *LOOKED_AT,
        *("test", "condition", "value", "advantage", "advantage_low", "advantage_high"),
    ),
    key=SCORES.key,
    needed=("run", "method", "train_seed", "variant", "test", "condition", "value"),
    measures=("advantage", "advantage_low", "advantage_high"),
    single=False,
    absent=SCORES.absent,
)
PROBES = TableSchema(
    columns=(
        *("run", "method", "train_seed", "step", "variant", "severity", "player", "eval_seed"),
        *("source", "layer", "inputs", "label", "unit", "columns"),
        *("r2", "error", "correlation", "balanced_accuracy", "n_fit", "n_read", "n_games"),
    ),
    key=("method", "step", "variant", "player", "eval_seed"),
    needed=("run", "method", "train_seed", "variant", "source", "layer", "label"),
    measures=("r2", "error", "correlation", "balanced_accuracy"),
    single=False,
)
LAYERS = TableSchema(
    columns=(
        *("run", "method", "train_seed", "step", "variant", "severity", "player", "eval_seed"),
        *("layer", "inputs", "cka", "cosine", "distance", "policy_returned", "value_returned"),
        *("policy_offset", "value_offset", "blame", "js", "flips", "value_error"),
        *("n_frames", "n_games"),
    ),
    key=("method", "step", "variant", "player", "eval_seed"),
    needed=("run", "method", "train_seed", "variant", "layer"),
    measures=(
        *("cka", "cosine", "distance", "policy_returned", "value_returned"),
        *("policy_offset", "value_offset", "blame", "js", "value_error"),
    ),
    single=False,
)
INTERVENTIONS = TableSchema(
    columns=(
        *("run", "method", "train_seed", "step", "variant", "player", "eval_seed"),
        *("object", "change"),
        *("js", "flips", "value_error", "view", "claim", "claim_density", "rank_correlation"),
        *("n_frames", "excluded"),
    ),
    key=("method", "step", "player", "eval_seed"),
    needed=("run", "method", "train_seed", "variant", "object", "change", "js"),
    measures=("flips", "value_error", "claim", "claim_density", "rank_correlation"),
    single=False,
)
BREAKING = TableSchema(
    columns=(
        *("run", "method", "train_seed", "step", "variant", "eval_seed"),
        *("height", "width", "row", "column"),
        *("gray", "js", "flips", "tried", "clean", "score", "share", "broken", "episodes"),
    ),
    key=("method", "step", "eval_seed"),
    needed=("run", "method", "train_seed", "variant", "height", "width", "js"),
    measures=("row", "column", "gray", "flips", "clean", "score", "share", "broken"),
    single=False,
)
PLASTICITY_TABLE = TableSchema(
    columns=(
        *("run", "method", "train_seed", "step", "eval_seed", "frames", "fit_steps"),
        *("trained", "fresh", "ratio"),
    ),
    key=("method", "step", "eval_seed", "frames", "fit_steps"),
    needed=("run", "method", "train_seed", "step", "trained", "fresh"),
    measures=("trained", "fresh", "ratio"),
    single=True,
)
MEASURED = {  # what the report reads
    "episodes": EPISODES,
    "twin": TWIN,
    "attention": SCORES,
    "faithfulness": FAITHFULNESS,
    "probes": PROBES,
    "layers": LAYERS,
    "interventions": INTERVENTIONS,
    "breaking": BREAKING,
}
FILES = {  # where a run folder has them
    "episodes": "evaluation/episodes.csv",
    "twin": "evaluation/twin.csv",
    "probes": "evaluation/probes.csv",
    "layers": "evaluation/layers.csv",
    "interventions": "evaluation/interventions.csv",
    "breaking": "evaluation/breaking.csv",
    "plasticity": "evaluation/plasticity.csv",
    "attention": "attention/scores.csv",
    "faithfulness": "attention/faithfulness.csv",
}
AGENT = "evaluation/agent.json"  # the game, beside what was measured of a model without a run
# evaluation/validation.csv: these behind the step
VALIDATION = ("variant", "severity", "episode", "eval_seed", "episode_return", "length", "end")
# The generalization gap, one row per method and variant.
GAP = (
    *("method", "variant", "n_seeds", "score", "clean", "gap", "gap_low", "gap_high"),
    *("retention", "retention_low", "retention_high"),
)


def is_open(mean: float, entropy: float) -> bool:
    """Whether a mask of this mean cell and entropy lets nearly everything through."""
    return mean > OPEN_MEAN and entropy > OPEN_ENTROPY
