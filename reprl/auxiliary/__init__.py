"""Auxiliary losses: named terms that shape the representation beside the policy's own."""

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.byol import Byol
from reprl.auxiliary.contrastive import Contrastive
from reprl.auxiliary.decoder import Decoder
from reprl.auxiliary.drac import DrAC
from reprl.auxiliary.inverse_dynamics import InverseDynamics
from reprl.auxiliary.mask_entropy import MaskEntropy
from reprl.auxiliary.motion_target import MotionTarget
from reprl.auxiliary.object_target import ObjectTarget
from reprl.auxiliary.prediction import RewardPrediction, ValuePrediction
from reprl.auxiliary.reconstruction import Reconstruction
from reprl.auxiliary.regularization import Regularization
from reprl.auxiliary.representation import Representation
from reprl.auxiliary.saliency_guided import SaliencyGuided
from reprl.auxiliary.self_prediction import SelfPrediction
from reprl.auxiliary.soda import Soda
from reprl.auxiliary.sparsity import Sparsity
from reprl.auxiliary.spatiotemporal import SpatioTemporal
from reprl.auxiliary.svea import Svea
from reprl.auxiliary.temporal import TemporalContrastive
from reprl.auxiliary.total_variation import TotalVariation
from reprl.auxiliary.ucb_drac import UcbDrAC
from reprl.auxiliary.vae import VariationalAutoencoder

__all__ = [
    "AuxiliaryLoss",
    "Batch",
    "Byol",
    "Context",
    "Contrastive",
    "Decoder",
    "DrAC",
    "InverseDynamics",
    "MaskEntropy",
    "MotionTarget",
    "ObjectTarget",
    "Reconstruction",
    "Regularization",
    "Representation",
    "RewardPrediction",
    "SaliencyGuided",
    "SelfPrediction",
    "Soda",
    "Sparsity",
    "SpatioTemporal",
    "Svea",
    "TemporalContrastive",
    "TotalVariation",
    "UcbDrAC",
    "ValuePrediction",
    "VariationalAutoencoder",
]
