"""`reprl probe DIR`: what the features hold, clean and under each variant, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from reprl.envs.defaults import CLEAN
from reprl.escaping import shown
from reprl.settings import PROBE

if TYPE_CHECKING:
    import pandas as pd

    from reprl.evaluation.checkpoints import Measured

HELP = "what the features hold: linear probes of every layer, clean and under variants"

KEYS = {
    "variants": VARIANTS,
    "frames": Key(1800, "moments in all, a third of them held out", "int", allowed=PROBE["frames"]),
    "games": Key(12, "games side by side, a third of them held out", "int", allowed=PROBE["games"]),
    "every": EVERY,
    "seed": SEED,
    "player": PLAYER,
    **COMMON,
}


def run(arguments: list[str]) -> int:
    """Probe every run below the folders."""
    places, values = parse("probe", arguments, KEYS, "many", archives=True)
    from reprl.evaluation.variants import expand

    found = found_runs(places, values, "a probe")
    variants = expand(values["variants"], (), found[0].game)
    tables: list[pd.DataFrame] = []

    def measure(target: Measured) -> None:
        from reprl.analysis.probe.study import probe, write

        begin(target, "probing")
        names = ("frames", "games", "every", "seed", "player")
        table = probe(target, variants, **{name: values[name] for name in names})
        path = write(target, table)
        warn(table.attrs["problems"])
        _show(table, target.name, int(table["step"].iloc[0]))
        print(f"  {table.attrs['seconds']:.0f} s -> {shown(path)}")
        tables.append(table)

    code = each_run(found, values, measure)
    if len(tables) > 1:
        _show_runs(tables)
    return code


def _show_runs(tables: list[pd.DataFrame]) -> None:
    """Means over the runs of each method, in the layer that the heads read."""
    import pandas as pd

    from reprl.analysis.readability import features_layer, over_runs

    rows = pd.concat(tables, ignore_index=True)
    print("\nmean over runs [95 % interval] in the layer that the heads read")
    lines = [["method", "variant", "layer", "runs", *dict.fromkeys(rows["label"])]]
    for method, own in rows.groupby("method", sort=False):
        layer = features_layer(own)
        part = over_runs(own[(own["source"] == "agent") & (own["layer"] == layer)])
        for variant, at in part.groupby("variant", sort=False):
            cells = {str(row["label"]): _with_interval(row) for row in at.to_dict("records")}
            count = str(int(at["n_seeds"].max()))
            named = [cells.get(str(name), "-") for name in lines[0][4:]]
            lines.append([str(method), str(variant), layer, count, *named])
    show(lines, 3)


def _with_interval(row: dict[Any, Any]) -> str:
    name = "r2" if row["r2"] == row["r2"] else "balanced_accuracy"
    value, low, high = (max(float(row[f"{name}{end}"]), -99.0) for end in ("", "_low", "_high"))
    return f"{value:.2f}" + (f" [{low:.2f}, {high:.2f}]" if row["n_seeds"] > 1 else "")


def _show(table: pd.DataFrame, name: str, step: int) -> None:
    from reprl.analysis.probe.study import summary

    first = table.iloc[0]
    print(
        f"\n{shown(name)} at step {step}, frames of player={first['player']}: "
        f"fitted on {first['n_fit']} clean ones, read on {first['n_read']} of other games"
    )
    print("R2 of numbers (1 all, 0 nothing), balanced accuracy of yes/no labels (0.5 chance)")
    for variant in dict.fromkeys(table["variant"]):
        controls = ("untrained", "pixels", "shuffled", "truth") if variant == CLEAN else ("pixels",)
        lines = summary(table, variant, ("agent", *controls))
        print(f"\n  {shown(variant)}")
        show(lines, 2)
    left_out = table.attrs["left_out"]
    if left_out:
        named = ", ".join(f"{label} ({why})" for label, why in left_out.items())
        print(f"\n  left out: {shown(named)}")
