"""Decoder loss: what can still be predicted from the attended view alone.

Together with sparsity it decides what a mask must keep. The target never takes a gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.modules import ImageTrunk, PixelHead, mlp
from reprl.auxiliary.sparsity import require_attention
from reprl.encoders.base import Encoder
from reprl.errors import UserError
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker

# target -> what it reads of a minibatch besides the pictures
TARGETS: dict[str, frozenset[str]] = {
    "value": frozenset({"returns"}),
    "policy": frozenset({"log_probs"}),
    "features": frozenset(),
    "pixels": frozenset(),
}


class Decoder(AuxiliaryLoss):
    """Predict the return, the policy, the features or the pixels from the masked view.

    view "map": reads the feature map behind the mask, so gradient reaches mask and trunk. With a
    mask on the image that map is the encoded masked image. view "image": reads image * mask with
    a network of its own, so gradient reaches the encoder through the mask only.
    """

    def __init__(
        self,
        *,
        coef: Coefficient = 0.05,
        target: str = "value",
        view: str = "map",
        hidden: int = 128,
        shrink: int = 2,
        begin: int = 0,
    ) -> None:
        super().__init__()
        self.declare("decoder", coef=coef, begin=begin)
        check = checker(CLASSES["Decoder"], self)
        self.target = check("target", target)
        self.needs = TARGETS[self.target]
        self.view = check("view", view)
        self.hidden = check("hidden", hidden)
        self.shrink = check("shrink", shrink)
        if self.target == "features" and self.view == "map":
            raise UserError(
                "auxiliary loss 'decoder': target=features needs view=image, because the features "
                "are made from the attended map itself."
            )

    def setup(self, context: Context) -> None:
        frames, height, width = context.observation_space.shape
        masks = require_attention("decoder", context)[0]
        if self.view == "image" and masks not in (1, frames):
            raise UserError(
                f"auxiliary loss 'decoder': view=image needs one mask, or one for each of the "
                f"{frames} frames, but the encoder has {masks}."
            )
        if self.view == "image":
            self.trunk = ImageTrunk((frames, height, width))
            inputs = self.trunk.width
        else:
            inputs = context.encoder.dry_output().feature_map[0].numel()
        self.head: torch.nn.Module
        if self.target == "pixels":
            self.head = PixelHead(inputs, (frames, height, width), shrink=self.shrink)
        else:
            outputs = {
                "value": 1,
                "policy": int(context.action_space.n),
                "features": context.encoder.features_dim,
            }
            self.head = mlp(inputs, self.hidden, outputs[self.target])

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        return {"decoder": self._error(batch, self._attended(batch, encoder))}

    def _attended(self, batch: Batch, encoder: Encoder) -> Tensor:
        """All the decoder may read, as vectors (B, N)."""
        if self.view == "map":
            return batch.output.feature_map.flatten(1)
        attention = batch.output.attention
        assert attention is not None
        # (B, stack, H, W) times (B, K, H, W), K being 1 or stack
        return self.trunk(batch.images() * encoder.visibility(attention))

    def _error(self, batch: Batch, attended: Tensor) -> Tensor:
        if isinstance(self.head, PixelHead):
            return self.head.error(attended, batch.images())
        guess = self.head(attended)
        if self.target == "value":
            return functional.mse_loss(guess.squeeze(1), batch.returns.detach())
        if self.target == "features":
            return functional.mse_loss(guess, batch.output.features.detach())
        log_probs = batch.log_probs.detach()  # (B, n_actions)
        return functional.kl_div(
            guess.log_softmax(dim=1), log_probs, log_target=True, reduction="batchmean"
        )
