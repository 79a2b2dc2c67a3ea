"""Augmentations: random changes of a batch of observations that keep what the agent must do."""

from reprl.augmentation.adapter import ModuleAugmentation
from reprl.augmentation.base import Augmentation, View
from reprl.augmentation.colour import ColorJitter
from reprl.augmentation.combine import Choice, Compose
from reprl.augmentation.convolution import RandomConvolution
from reprl.augmentation.cutout import Cutout
from reprl.augmentation.geometric import CropResize, Flip, Shift
from reprl.augmentation.lines import Lines
from reprl.augmentation.photometric import (
    Blur,
    Equalize,
    Intensity,
    Noise,
    Sharpness,
    Speckle,
)
from reprl.augmentation.textures import Texture
from reprl.augmentation.warps import Perspective, Rotate

__all__ = [
    "Augmentation",
    "Blur",
    "Choice",
    "ColorJitter",
    "Compose",
    "CropResize",
    "Cutout",
    "Equalize",
    "Flip",
    "Intensity",
    "Lines",
    "ModuleAugmentation",
    "Noise",
    "Perspective",
    "RandomConvolution",
    "Rotate",
    "Sharpness",
    "Shift",
    "Speckle",
    "Texture",
    "View",
]
