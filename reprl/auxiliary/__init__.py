"""Auxiliary losses: named terms that shape the representation beside the policy's own."""

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.contrastive import Contrastive
from reprl.auxiliary.decoder import Decoder
from reprl.auxiliary.drac import DrAC
from reprl.auxiliary.prediction import RewardPrediction, ValuePrediction
from reprl.auxiliary.reconstruction import Reconstruction
from reprl.auxiliary.regularization import Regularization
from reprl.auxiliary.representation import Representation
from reprl.auxiliary.sparsity import Sparsity
from reprl.auxiliary.spatiotemporal import SpatioTemporal
from reprl.auxiliary.temporal import TemporalContrastive

__all__ = [
    "AuxiliaryLoss",
    "Batch",
    "Context",
    "Contrastive",
    "Decoder",
    "DrAC",
    "Reconstruction",
    "Regularization",
    "Representation",
    "RewardPrediction",
    "Sparsity",
    "SpatioTemporal",
    "TemporalContrastive",
    "ValuePrediction",
]
