"""Augmentations: random changes of a batch of observations that keep what the agent must do."""

from reprl.augmentation.base import Augmentation, View
from reprl.augmentation.combine import Choice, Compose
from reprl.augmentation.cutout import Cutout
from reprl.augmentation.geometric import CropResize, Flip, Shift
from reprl.augmentation.lines import Lines
from reprl.augmentation.photometric import Blur, Intensity, Noise

__all__ = [
    "Augmentation",
    "Blur",
    "Choice",
    "Compose",
    "CropResize",
    "Cutout",
    "Flip",
    "Intensity",
    "Lines",
    "Noise",
    "Shift",
    "View",
]
