"""Encoders: images in; features, feature map and attention out."""

from reprl.encoders.base import Encoder, EncoderOutput
from reprl.encoders.convolutional import ConvEncoder
from reprl.encoders.impala import Impala
from reprl.encoders.mlp import Mlp
from reprl.encoders.nature import Nature, NaturePadded
from reprl.encoders.xresnet import XResNet

__all__ = [
    "ConvEncoder",
    "Encoder",
    "EncoderOutput",
    "Impala",
    "Mlp",
    "Nature",
    "NaturePadded",
    "XResNet",
]
