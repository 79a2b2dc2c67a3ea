"""`reprl layers DIR...`: where in the network a variant does its damage, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprl.cli.arguments import Key, parse
from reprl.cli.representation import (
    COMMON,
    EVERY,
    PLAYER,
    SEED,
    VARIANTS,
    begin,
    each_run,
    found_runs,
    show,
    warn,
)
from reprl.errors import UserError
from reprl.escaping import shown
from reprl.settings import TWINS

if TYPE_CHECKING:
    from reprl.evaluation.checkpoints import Measured

HELP = "how far each layer moves under a variant, and which layer is to blame"
KEYS = {
    "variants": VARIANTS,
    "frames": Key(400, "moments in all", "int", allowed=TWINS["frames"]),
    "games": Key(8, "games side by side", "int", allowed=TWINS["games"]),
    "every": EVERY,
    "seed": SEED,
    "player": PLAYER,
    **COMMON,
}
SHOWN = ("cka", "cosine", "distance", "policy_returned", "policy_offset", "value_offset", "blame")


def run(arguments: list[str]) -> int:
    """Compare the layers of every run below the folders."""
    places, values = parse("layers", arguments, KEYS, "many", archives=True)
    from reprl.evaluation.twin import comparable
    from reprl.evaluation.variants import expand

    found = found_runs(places, values, "a comparison of layers")
    variants = expand(values["variants"], (), found[0].game)
    if not comparable(variants)[0]:
        raise UserError(
            f"variants={','.join(values['variants'])} leaves nothing to compare with the clean "
            "game: name one that changes the picture and not the game."
        )

    def measure(target: Measured) -> None:
        from reprl.analysis.twins.layers import layers, write

        begin(target, "comparing layers")
        names = ("frames", "games", "every", "seed", "player")
        table = layers(target, variants, **{name: values[name] for name in names})
        path = write(target, table)
        warn(table.attrs["problems"])
        for variant, part in table.groupby("variant", sort=False):
            first = part.iloc[0]
            print(
                f"\n{shown(target.name)} on {shown(variant)}, {first['n_frames']} moments: policy "
                f"moved by {first['js']:.3f} nats, another action in {first['flips']:.0%}"
            )
            lines = [["layer", *(name.replace("_", " ") for name in SHOWN)]]
            lines += [
                [str(row["layer"]), *(f"{row[name]:.2f}" for name in SHOWN)]
                for row in part.to_dict("records")
            ]
            show(lines, 1)
        print(f"  {table.attrs['seconds']:.0f} s -> {shown(path)}")

    return each_run(found, values, measure)
