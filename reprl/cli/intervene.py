"""`reprl intervene DIR...`: what an agent reacts to when one object is changed through RAM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprl.cli.arguments import Key, parse
from reprl.cli.representation import COMMON, PLAYER, SEED, begin, each_run, found_runs, show
from reprl.errors import UserError, unknown
from reprl.escaping import shown
from reprl.schema import ATTRIBUTIONS
from reprl.settings import TWINS

if TYPE_CHECKING:
    from reprl.evaluation.checkpoints import Measured

HELP = "move the ball or the paddle, delete bricks: what the policy reacts to, and what maps claim"
KEYS = {
    "frames": Key(200, "moments in all", "int", allowed=TWINS["frames"]),
    "games": Key(4, "games, one after the other", "int", allowed=TWINS["games"]),
    "every": Key(8, "agent steps from one moment to the next", "int", allowed=TWINS["every"]),
    "seed": SEED,
    "player": PLAYER,
    "method": Key(
        None, f"{', '.join(ATTRIBUTIONS)}; by default the agent's mask, gradient if it has none"
    ),
    **COMMON,
}
SHOWN = {"js": "{:.3f}", "flips": "{:.0%}", "value_error": "{:.2f}", "claim_density": "{:.2f}"}


def run(arguments: list[str]) -> int:
    """Change the games of every run below the folders."""
    places, values = parse("intervene", arguments, KEYS, "many", archives=True)
    if values["method"] is not None and values["method"] not in ATTRIBUTIONS:
        raise unknown("value of method", values["method"], ATTRIBUTIONS)
    from reprl.envs.games import game as game_of

    found = found_runs(places, values, "an intervention")
    if not game_of(found[0].game).interventions:
        raise UserError(
            f"game '{found[0].game}' says of no object how it is changed through RAM: give its "
            "Game interventions=(...)."
        )

    def measure(target: Measured) -> None:
        from reprl.analysis.twins.interventions import interventions, write

        begin(target, "changing the game")
        names = ("frames", "games", "every", "seed", "player", "method")
        table = interventions(target, **{name: values[name] for name in names})
        path = write(target, table)
        print(f"\n{shown(target.name)}: reaction to each change, and what its map claims")
        lines = [["player", "object", "change", "policy js", "actions", "value", "map", "moments"]]
        for row in table.to_dict("records"):
            numbers = [form.format(row[k]).replace("nan", "-") for k, form in SHOWN.items()]
            counted = f"{row['n_frames']} of {row['n_frames'] + row['excluded']}"
            own = "agent" if row["method"] == table.iloc[0]["method"] else str(row["method"])
            lines.append([own, str(row["object"]), str(row["change"]), *numbers, counted])
        show(lines, 3)
        first = table.iloc[0]
        print(
            f"  rank correlation of reaction and {first['view']}: {first['rank_correlation']:.2f}"
        )
        print(f"  {table.attrs['seconds']:.0f} s -> {shown(path)}")

    return each_run(found, values, measure)
