"""The table of docs/algorithms.md: every cell is what the configuration and the class really do."""

import re
from pathlib import Path

import pytest

from reprl.algorithms import (
    A2C,
    APEX,
    DDPG,
    DQN,
    IDAAC,
    IMPALA,
    PPG,
    PPO,
    QRDQN,
    SAC,
    TD3,
    Distillation,
    Imitation,
    RecurrentPPO,
    Reinforce,
)
from reprl.algorithms.base import Algorithm
from reprl.components import names
from reprl.config.schema import load
from reprl.errors import UserError

PAGE = (Path(__file__).parents[3] / "docs" / "algorithms.md").read_text()
ASKED = {
    "mask": ["attention=conv"],
    "losses": ["auxiliary=contrastive"],
    "augmentations": ["augmentation=shift"],
    "ranks": ["ranks=2", "threads=1"],
    "fast mode": ["mode=fast"],
}
CLASSES: dict[str, type[Algorithm]] = {
    "ppo": PPO,
    "a2c": A2C,
    "reinforce": Reinforce,
    "ppg": PPG,
    "idaac": IDAAC,
    "recurrent_ppo": RecurrentPPO,
    "dqn": DQN,
    "qrdqn": QRDQN,
    "sac": SAC,
    "td3": TD3,
    "ddpg": DDPG,
    "imitation": Imitation,
    "distillation": Distillation,
    "impala": IMPALA,
    "apex": APEX,
}
STICK = ["env.continuous=true"]
NEEDED = {"sac": STICK, "td3": STICK, "ddpg": STICK}


def table() -> dict[str, dict[str, bool]]:
    lines = re.search(r"^\| `algo=`.*?(?=\n\n)", PAGE, re.DOTALL | re.MULTILINE)
    assert lines is not None
    head, _, *rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[0].splitlines()
    ]
    return {row[0]: {h: c == "yes" for h, c in zip(head[1:], row[1:], strict=True)} for row in rows}


def accepted(overrides: list[str]) -> bool:
    try:
        load(["device=cpu", *overrides])
    except UserError:
        return False
    return True


@pytest.mark.parametrize("algo", table())
def test_a_row_says_what_is_so(algo: str) -> None:
    row = table()[algo]
    assert set(row) == {*ASKED, "exact resume"}
    chosen = [f"algo={algo}", *NEEDED.get(algo, [])]
    assert accepted(chosen)
    for column, overrides in ASKED.items():
        assert accepted([*chosen, *overrides]) == row[column], column
    # a class on the seam is saved and restored whole; its own test kills it
    assert row["exact resume"] == CLASSES[algo].exact


def test_every_algorithm_that_plays_has_a_row() -> None:
    playing = {name.removesuffix("_defaults") for name in names("algo")} - {"pretrain"}
    assert set(table()) == playing == set(CLASSES)


def test_a2c_says_how_long_it_takes() -> None:
    for number in ("2.1 points at 1M", "7.4 at 3M", "47 at 5M", "344 at 10M"):
        assert number in PAGE
