"""ST-DIM: the whole picture, and each place in it, find the same place a step earlier."""

from __future__ import annotations

from torch import Tensor, nn

from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.auxiliary.contrastive import info_nce, negatives_of
from reprl.encoders.base import Encoder
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker


class SpatioTemporal(AuxiliaryLoss):
    """Mean over places yx of CE(W1 g(t) . l(t-k, yx)) + CE(W2 l(t, yx) . l(t-k, yx)), k = offset.

    g are the features, l the cells of the feature map, negatives the rest of the batch. Pairs that
    cross an episode start take no part. Gradient reaches the encoder at both times, W1 and W2.
    The authors' pictures are single frames one step apart; stacks of n frames that are to share
    none need offset n. negatives: "all" or "local", as of Contrastive.
    """

    def __init__(
        self,
        *,
        coef: Coefficient = 0.05,
        offset: int = 1,
        negatives: str = "all",
        begin: int = 0,
    ) -> None:
        super().__init__()
        self.declare("spatiotemporal", coef=coef, begin=begin)
        check = checker(CLASSES["SpatioTemporal"], self)
        self.offset = check("offset", offset)
        self.reach = self.offset
        self.negatives = check("negatives", negatives)

    def setup(self, context: Context) -> None:
        channels = context.encoder.dry_output().feature_map.shape[1]
        self.whole = nn.Linear(context.encoder.features_dim, channels, bias=False)
        self.place = nn.Linear(channels, channels, bias=False)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        earlier, valid = batch.at(-self.offset)
        output = batch.output
        if batch.augmented_from is not None:
            # A place of a shifted or mirrored picture is another place in the earlier one.
            output = encoder.encode(batch.images(batch.originals))
        # Only valid pairs are encoded: the rest would be negatives that never were neighbours.
        before = encoder.encode(batch.images(earlier[valid])).feature_map  # (V, C, h, w)
        keys = before.flatten(2).permute(2, 0, 1)  # (h*w, V, C)
        cells = output.feature_map[valid].flatten(2).permute(2, 0, 1)
        features = self.whole(output.features[valid])  # (V, C)
        among = negatives_of(batch, self.negatives)
        global_local = info_nce(features.expand_as(keys), keys, among)
        local_local = info_nce(self.place(cells), keys, among)
        return {"spatiotemporal": global_local + local_local}
