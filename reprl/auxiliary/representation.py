"""The representation loss of the field notes: several losses under nested coefficients.

total += repr_coef * (contra_coef * contrastive + encoder_coef * sparsity
                      + decoder_coef * decoder + recon_coef * reconstruction)
         + regularize_coef * regularization, all from step begin_repr on.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from reprl import components
from reprl.auxiliary.base import AuxiliaryLoss, Batch, Context
from reprl.encoders.base import Encoder
from reprl.errors import UserError
from reprl.schedules import Coefficient, scaled
from reprl.settings import CLASSES
from reprl.validation import checker

NAME = "representation"


class Representation(AuxiliaryLoss):
    """Nested coefficients multiplied through; a part whose own coefficient is 0 is left out.

    Each part is a name of the group or a spec; its `coef` is the one given here.
    """

    def __init__(
        self,
        *,
        repr_coef: Coefficient = 0.05,
        contra_coef: Coefficient = 0.0,
        encoder_coef: Coefficient = 0.0,
        decoder_coef: Coefficient = 0.0,
        recon_coef: Coefficient = 0.0,
        regularize_coef: Coefficient = 0.0,
        begin_repr: int = 0,
        contrastive: components.Spec = "contrastive",
        sparsity: components.Spec = "sparsity",
        decoder: components.Spec = "decoder",
        reconstruction: components.Spec = "reconstruction",
        regularization: components.Spec = "regularization",
    ) -> None:
        super().__init__()
        check = checker(CLASSES["Representation"], self)
        outer = scaled(check("repr_coef", repr_coef))
        self.begin_repr = check("begin_repr", begin_repr)
        self.parts = nn.ModuleDict()
        self._add("contrastive", contrastive, "contra_coef", contra_coef, outer)
        self._add("sparsity", sparsity, "encoder_coef", encoder_coef, outer)
        self._add("decoder", decoder, "decoder_coef", decoder_coef, outer)
        self._add("reconstruction", reconstruction, "recon_coef", recon_coef, outer)
        # The field notes add the regularization beside the representation loss, not inside it.
        self._add("regularization", regularization, "regularize_coef", regularize_coef, 1.0)
        if not self.parts:
            raise UserError(
                "auxiliary loss 'representation' has no part: give contra_coef, encoder_coef, "
                "decoder_coef, recon_coef or regularize_coef a value above 0."
            )
        self.reach = max(part.reach for part in self._losses().values())
        self.needs = frozenset().union(*(part.needs for part in self._losses().values()))

    def _add(
        self, term: str, spec: components.Spec, key: str, coef: Coefficient, outer: Coefficient
    ) -> None:
        inner = scaled(checker(CLASSES["Representation"], self)(key, coef))
        weight = _nested(key, inner, outer)
        if coef == 0:
            return
        plain = components.resolve("auxiliary", spec)
        if plain is None:
            raise UserError(f"auxiliary loss '{NAME}': {key}={coef} needs {term}, got {spec!r}.")
        part = components.build("auxiliary", {**plain, "coef": weight})
        if len(part.weights) != 1:
            raise UserError(
                f"auxiliary loss '{NAME}': {term} must be an auxiliary loss with one term, "
                f"got {plain['_target_']}."
            )
        self.parts[term] = part
        begin = max(self.begin_repr, *part.begin.values(), 0)
        self.declare(term, coef=weight, begin=begin)

    def _losses(self) -> dict[str, AuxiliaryLoss]:
        return {term: part for term, part in self.parts.items() if isinstance(part, AuxiliaryLoss)}

    def setup(self, context: Context) -> None:
        if "contrastive" not in self.parts:
            _ = context.augmentation  # a coefficient of 0 switches its views off, knowingly
        for part in self._losses().values():
            part.setup(context)

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        terms = {}
        whole = batch.wanting(None)  # a part calls its term by a name of its own
        for term, part in self._losses().items():
            if batch.wants(term):
                (terms[term],) = part(whole, encoder).values()
        return terms

    def after_step(self) -> None:
        for part in self._losses().values():
            part.after_step()


def _nested(key: str, inner: Coefficient, outer: Coefficient) -> Coefficient:
    """The product of an inner and the outer coefficient, one of which may be a schedule."""
    if not isinstance(outer, Mapping):
        return scaled(inner, outer)
    if not isinstance(inner, Mapping):
        return scaled(outer, inner)
    raise UserError(
        f"auxiliary loss '{NAME}': repr_coef and {key} are both schedules, whose product is none: "
        "give one of them as a number."
    )
