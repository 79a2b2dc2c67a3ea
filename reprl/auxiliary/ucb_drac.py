"""UCB-DrAC (Raileanu et al. 2020): DrAC that finds out which augmentation serves the game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from reprl.auxiliary.bandit import Bandit
from reprl.auxiliary.base import Batch, Context
from reprl.auxiliary.drac import DrAC
from reprl.auxiliary.views import Views
from reprl.components import Spec
from reprl.encoders.base import Encoder
from reprl.errors import UserError
from reprl.naming import part_name
from reprl.schedules import Coefficient
from reprl.settings import CLASSES
from reprl.validation import checker

OPTIONS = ("shift", "gray_boxes", "cutout", "rotate", "random_convolution", "intensity", "noise")


class UcbDrAC(DrAC):
    """DrAC with one of `options` in each update, the next chosen by what the last rollouts paid.

    An option is credited with the mean return of the rollout after the update that used it.
    """

    # Whoever has no advantages does not learn from returns: nothing would be credited.
    needs = DrAC.needs | {"advantages"}
    scored = True
    term: ClassVar[str] = "ucb_drac"

    def __init__(
        self,
        *,
        coef: Coefficient = 0.1,
        options: Sequence[Spec] = OPTIONS,
        exploration: float = 0.1,
        window: int = 10,
        begin: int = 0,
    ) -> None:
        super().__init__(coef=coef, begin=begin)
        check = checker(CLASSES["UcbDrAC"], self)
        listed = isinstance(options, Sequence) and not isinstance(options, str)
        if not listed or len(options) < 2:
            raise UserError(
                f"UcbDrAC: options={options} must be two or more augmentations to choose from."
            )
        self.options = [Views(option) for option in options]
        self.names = [part_name(option) for option in options]
        if len(set(self.names)) < len(self.names):
            self.names = [f"{name}_{place}" for place, name in enumerate(self.names)]
        self.bandit = Bandit(
            len(options),
            exploration=float(check("exploration", exploration)),
            window=check("window", window),
        )

    def setup(self, context: Context) -> None:
        for views in self.options:
            views.setup(context)
            views.require_actions()
        self.views = self.options[0]

    def begin_update(self, score: float) -> None:
        self.bandit.credit(score)
        self.bandit.choose()

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        self.views = self.options[max(int(self.bandit.chosen), 0)]
        return super().forward(batch, encoder)

    def noted(self) -> dict[str, float]:
        """Each option's share of all updates."""
        counts = self.bandit.counts
        shares = (counts / counts.sum().clamp(min=1)).tolist()
        return {f"ucb/{name}": share for name, share in zip(self.names, shares, strict=True)}
