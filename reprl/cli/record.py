"""`reprl record`: play into a recording for pretraining, or export one as a Minari dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reprl.cli.arguments import TRUST, Key, parse
from reprl.config.schema import Env
from reprl.envs.defaults import CLEAN, DEFAULT_GAME
from reprl.envs.machine import OBSERVED
from reprl.errors import UserError
from reprl.escaping import shown
from reprl.recordings.storage import PLAYERS, RecordedPlay
from reprl.runs.places import check_writable, expanded, is_folder
from reprl.settings import ENV, RECORDED, SEED, THREADS

HELP = "record frames of play for pretraining: reprl record player=random frames=50000 out=DIR"

KEYS = {
    "out": Key(None, "the recording's folder, a new one", "path"),
    "player": Key("random", "random, scripted, a run's folder or agent:NAME"),
    "frames": Key(50_000, "frames in all", "int", allowed=RECORDED),
    "game": Key(DEFAULT_GAME, "the game; of an agent it is the agent's"),
    "variant": Key(CLEAN, "name, name@severity or composition a+b; several with commas", "list"),
    "size": Key(84, "pixels of the pictures; of an agent they are the agent's", "int",
                allowed=ENV["size"]),
    "n_envs": Key(8, "games side by side", "int", allowed=ENV["n_envs"]),
    "workers": Key(0, "processes that play, 0 for this one", "int", allowed=ENV["workers"]),
    "sticky": Key(0.0, "probability that an action is repeated", "float", allowed=ENV["sticky"]),
    "seed": Key(0, "games and actions are drawn from it", "int", allowed=SEED),
    "threads": Key(1, "torch's threads, for an agent", "int", allowed=THREADS),
    "minari": Key(None, "export the recording DIR as this Minari dataset: NAME-v0 or a/b/NAME-v0"),
    "trust": TRUST,
}  # fmt: skip


def run(arguments: list[str]) -> int:
    """Record, or with DIR and minari= export."""
    folders, values = parse("record", arguments, KEYS, "perhaps")
    if folders:
        return export(folders[0], values)
    if values["minari"] is not None:
        raise UserError("minari= exports a recording: name its folder, as in reprl record DIR.")
    if values["out"] is None:
        raise UserError("reprl record needs out=DIR, the folder to record into.")
    out: Path = values["out"]
    check_writable(out, "out")
    if is_folder(out) and any(out.iterdir()):
        raise UserError(f"out={out} is not empty: choose a new folder.")
    found = play(out, values)
    print(f"{found.frames:,} frames of {shown(found.facts.game)} -> {shown(found.path)}")
    print(f"next: reprl pretrain data={shown(found.path)} auxiliary=spatiotemporal")
    return 0


def play(out: Path, values: dict[str, Any]) -> RecordedPlay:
    """Record as asked."""
    from reprl.envs import make_vec_env
    from reprl.envs.games import game as game_of
    from reprl.envs.games import no_script

    player, agent = values["player"], None
    settings = {"game": values["game"], "size": values["size"], "sticky": values["sticky"]}
    if player not in PLAYERS:
        agent, known = agent_of(player, values["threads"])
        settings |= {name: getattr(known, name) for name in OBSERVED}
    elif player == "scripted" and game_of(values["game"]).scripted is None:
        raise UserError(no_script("player=scripted", values["game"]))
    from reprl.recordings.recorder import record

    env = make_vec_env(
        values["variant"], values["n_envs"], values["seed"], values["workers"], **settings
    )
    try:
        if agent is not None and agent.observation_space != env.observation_space:
            raise UserError(
                f"player={player} sees {agent.observation_space.shape}, the recorded game has "
                f"{env.observation_space.shape}."
            )
        return record(
            env, out, player=player, frames=values["frames"], seed=values["seed"], agent=agent
        )
    finally:
        env.close()


def agent_of(player: str, threads: int) -> tuple[Any, Env]:
    """The trained agent that a folder or `agent:NAME` names, and what it was trained in."""
    from reprl.runs.agents import folder_of

    folder = folder_of(player) or expanded(player)
    if not is_folder(folder):
        raise UserError(
            f"player={player} is unknown: random, scripted, agent:NAME or the folder of a run."
        )
    from reprl.runs.folder import open_run

    known = open_run(folder).config().env  # code that it names is the user's, or refused
    import torch

    from reprl import checkpoint

    torch.set_num_threads(threads)
    return checkpoint.load(folder), known


def export(folder: Path, values: dict[str, Any]) -> int:
    """Write a recording as a Minari dataset."""
    if values["minari"] is None:
        raise UserError(f"reprl record {folder} needs minari=NAME-v0, the dataset to export.")
    recording = RecordedPlay.open(folder)
    from reprl.recordings.minari import export_minari

    path, episodes = export_minari(recording, values["minari"])
    print(f"{episodes:,} episodes -> {shown(path)}")
    return 0
