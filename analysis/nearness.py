"""Which variants look like what agents met in training: near ones say less about generalization.

NEAR is the one place where that is declared. A report splits its variants by all augmentations in
it, so that the near and the far ones are the same for every method.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from reprl.naming import curve_of, is_baseline

BOXES = ("constant_rectangle", "moving_square", "random_squares", "ball_decoys")
LINES = (
    *("green_lines", "green_lines_under", "green_lines_matched", "diagonals"),
    *("vertical_lines", "random_lines", "moving_lines"),
)
COLOURS = ("family:colour", "family:strobe")
SHIFTS = ("screen_shifted",)

# augmentation -> names of variants, or whole families, that it resembles
NEAR: dict[str, tuple[str, ...]] = {
    "gray_boxes": BOXES,
    "moving_boxes": BOXES,
    "shift_gray_boxes": (*BOXES, *SHIFTS),
    "boxes_lines": (*BOXES, *LINES),
    "lines": LINES,
    "cutout": BOXES,
    "shift": SHIFTS,
    "translate": SHIFTS,
    "rotate": ("screen_rotated",),
    "perspective": ("family:geometry",),
    "crop_resize": ("screen_scaled", *SHIFTS),
    "intensity": COLOURS,
    "mixed": (
        *BOXES,
        *COLOURS,
        "screen_scaled",
        *SHIFTS,
    ),  # with shift and crop
    "noise": ("noise", "moving_video"),
    "speckle": ("noise", "moving_video"),
    "boxes_speckle": (*BOXES, "noise", "moving_video"),
    "blur": ("blur",),
    "sharpness": ("blur",),
    "texture": ("noise", "moving_texture", "moving_plasma", "moving_video"),
    "equalize": COLOURS,
    "random_convolution": COLOURS,
    "color_jitter": COLOURS,
}


def is_near(variant: str, family: str, augmentations: Iterable[str]) -> bool:
    """Whether any part of a variant (`a+b` has two) resembles one of the augmentations."""
    names = {curve_of(part) for part in variant.split("+")}
    names |= {f"family:{part}" for part in str(family).split("+")}
    return any(names & set(NEAR.get(augmentation, ())) for augmentation in augmentations)


def near_variants(frame: pd.DataFrame) -> set[str]:
    """The labels of the near variants of a prepared table of games."""
    if "augmentation" not in frame:
        return set()
    trained = frame[~frame["method"].map(is_baseline)]
    met = set(trained["augmentation"].dropna().astype(str))
    places = frame.drop_duplicates("variant")
    pairs = zip(places["variant"], places["family"], strict=True)
    return {str(variant) for variant, family in pairs if is_near(str(variant), str(family), met)}
