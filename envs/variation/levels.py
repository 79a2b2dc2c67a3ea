"""Other levels: the variant axis of Procgen, whose games differ by level instead of by drawing."""

from reprl.envs.procgen_names import FAMILY, UNSEEN, procgen_games
from reprl.envs.variation.base import Variant

VARIANTS = (
    Variant(
        UNSEEN,
        family=FAMILY,
        games=procgen_games(),
        help="Procgen: levels that training never shows; original has those of training.",
    ),
)
