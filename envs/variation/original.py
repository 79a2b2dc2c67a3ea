"""The unchanged game, so that every list of variants can name it."""

from reprl.envs.variation.base import Variant

VARIANTS = (Variant("original", family="original", help="The game as it is."),)
