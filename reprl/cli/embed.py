"""`reprl embed DIR...`: a map of the features, clean states joined to their twins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprl.cli.arguments import Key, parse
from reprl.cli.representation import (
    COMMON,
    PLAYER,
    SEED,
    VARIANTS,
    begin,
    each_run,
    found_runs,
    warn,
)
from reprl.escaping import shown
from reprl.settings import TWINS

if TYPE_CHECKING:
    from reprl.evaluation.checkpoints import Measured

HELP = "a map of the features (PCA, t-SNE, UMAP): clean joined to its twin, neighbours as frames"
METHODS = ("pca", "tsne", "umap")
KEYS = {
    "variants": VARIANTS,
    "method": Key(
        "pca", f"{', '.join(METHODS)} (umap if it is installed)", choices=lambda: METHODS
    ),
    "frames": Key(200, "moments in all", "int", allowed=TWINS["frames"]),
    "games": Key(8, "games side by side", "int", allowed=TWINS["games"]),
    "every": Key(8, "agent steps from one moment to the next", "int", allowed=TWINS["every"]),
    "seed": SEED,
    "player": PLAYER,
    "neighbours": Key(5, "nearest clean states that are kept", "int", allowed=TWINS["neighbours"]),
    "perplexity": Key(30.0, "neighbours that t-SNE looks at", "float", allowed=TWINS["perplexity"]),
    **COMMON,
}


def run(arguments: list[str]) -> int:
    """Embed every run below the folders."""
    places, values = parse("embed", arguments, KEYS, "many", archives=True)
    from reprl.evaluation.variants import expand

    found = found_runs(places, values, "an embedding")
    variants = expand(values["variants"], (), found[0].game)

    def measure(target: Measured) -> None:
        from reprl.analysis.embedding.study import embed, write

        begin(target, "embedding")
        names = ("method", "frames", "games", "every", "seed", "player", "neighbours", "perplexity")
        made = embed(target, variants, **{name: values[name] for name in names})
        path = write(target, made)
        warn(made.problems)
        for view, kept in zip(made.views[1:], made.kept[1:], strict=True):
            print(
                f"{shown(target.name)} on {shown(view)}: the nearest clean state is its own twin "
                f"for {kept:.0%} of the states"
            )
        print(f"  {made.seconds:.0f} s -> {shown(path)}")

    return each_run(found, values, measure)
