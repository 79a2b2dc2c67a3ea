"""What may have become of an attention mask: the labels that instruments, views and reports share.

The instruments give a label to each look at a mask, training raises an alarm for it, and the report
says it of each run. Free of torch, because the report reads labels without a model.
"""

from __future__ import annotations

STATES = {
    "black": "nothing gets through",
    "saturated": "even its darkest cells let everything through",
    "open": "it lets nearly everything through",
    "stuck": "its peak stays in one place",
    "border": "only its outermost cells stand out",
}
LABELS = tuple(STATES)
OPEN_MEAN = 0.9
# With all other cells alike, one shut cell of 7x7 leaves an entropy of 0.995 and five shut cells of
# 21x21 one of 0.998: a mask that hides even a little thing in that way is not open.
OPEN_ENTROPY = 0.998


def is_open(mean: float, entropy: float) -> bool:
    """Whether a mask of this mean cell and entropy lets nearly everything through."""
    return mean > OPEN_MEAN and entropy > OPEN_ENTROPY
