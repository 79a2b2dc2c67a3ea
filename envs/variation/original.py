"""The unchanged game, so that every list of variants can name it."""

from reprl.envs.defaults import CLEAN
from reprl.envs.variation.base import Variant

VARIANTS = (Variant(CLEAN, family=CLEAN, help="The game as it is."),)
