"""Where an agent believes the tracked object to be: a linear reader of the features it plays from.

clean frames of other games -> **reader of the object's middle, in raw pixels** -> the explorer
draws it at every step of a film, in every picture. Fitted on clean frames only, as the heads were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reprl.analysis.probe.layers import prober
from reprl.analysis.probe.linear import Readout
from reprl.analysis.probe.record import record
from reprl.envs.defaults import CLEAN, DEFAULT_GAME
from reprl.envs.games import game as game_of
from reprl.errors import UserError

FRAMES, GAMES, EVERY = 300, 6, 4
FIRST_GAME = 10_000  # games of other numbers than those that films show
FEWEST = 60  # frames with the object in view


@dataclass(frozen=True)
class Belief:
    """A fitted reader of one object's place."""

    object: str
    readout: Readout
    features: np.ndarray  # (n, F) of the fitted frames, centred
    centre: np.ndarray  # (F,)

    def places(self, features: np.ndarray) -> np.ndarray:
        """Middles (m, 2) in raw pixels, x first, from features (m, F)."""
        products = (features.astype(np.float64) - self.centre) @ self.features.T
        return self.readout.read(products)


def believed(
    model: Any, settings: Mapping[str, Any], *, seed: int = 0, whose: int | None = None
) -> Belief | None:
    """Fit the reader; None where the object is not known, or hardly ever in view."""
    game = game_of(str(settings.get("game", DEFAULT_GAME)))
    tracked = game.tracked
    if tracked is None or not game.has_truth:
        return None
    try:
        watcher = prober(model)
    except UserError:
        return None  # a player of another kind: nobody knows which network it is
    moments = record(
        model,
        watcher,
        (),
        frames=FRAMES,
        games=range(FIRST_GAME, FIRST_GAME + GAMES),
        every=EVERY,
        seed=seed,
        whose=whose,
        player="agent",
        settings=settings,
    )
    boxes = [objects.boxes.get(tracked) for objects in moments.objects]
    seen = np.flatnonzero([box is not None for box in boxes])
    places = np.array([box.center for box in boxes if box is not None])  # (n, 2)
    if len(seen) < FEWEST or (places.std(axis=0) == 0).any():
        return None
    outputs, _ = watcher.outputs(*moments.rows(CLEAN, seen))
    features = outputs.features.astype(np.float64)
    centre = features.mean(axis=0)
    features = features - centre
    games = moments.games[seen]
    readout = Readout.fit(features @ features.T, places, np.zeros(2, bool), games)
    return Belief(tracked, readout, features, centre)
