"""From an agent and variants to a table with one row per game, the input of the analysis."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from gymnasium import spaces

from reprl.envs.defaults import DEFAULT_GAME
from reprl.envs.games import canonical
from reprl.envs.machine import OBSERVED
from reprl.envs.machine import games as all_games
from reprl.envs.protocol import VariantSpec
from reprl.errors import UserError
from reprl.evaluation.episodes import FRAME_LIMIT, STUCK_AFTER, Arena, FinishedGame
from reprl.evaluation.players import Agent, Contestant, RandomAgent, Task, as_agent
from reprl.evaluation.variants import expand, label
from reprl.game_seeds import whose_games
from reprl.naming import variant_label
from reprl.schema import EPISODES, VALIDATION_PREFIX, VALIDATION_SCORE
from reprl.settings import EPISODES as GAMES

COLUMNS = EPISODES.columns


def evaluate(
    agent: Any,
    variants: VariantSpec | Iterable[VariantSpec],
    episodes: int,
    seed: int = 0,
    *,
    games: str = "own",
    deterministic: bool = False,
    sticky: float = 0.0,
    severities: Sequence[float] = (),
    n_envs: int = 32,
    workers: int = 0,
    frame_limit: int = FRAME_LIMIT,
    stuck_after: int = STUCK_AFTER,
    progress: Callable[[FinishedGame], None] | None = None,
    **settings: Any,
) -> pd.DataFrame:
    """Play `episodes` full games on each variant: one row a game, raw scores, `length` in frames.

    Episode e has the same start and the same stream of uniforms on every variant, and for every
    agent of one training seed; with games="shared", and for agents without a seed, for all agents.
    What it sees (game, stack, ...) is the model's own unless given. `attrs["distinct"]` counts the
    games that differ in any action, reward or lost life, per variant.
    """
    episodes = GAMES.checked("episodes", episodes)
    settings = env_settings(agent, settings.get("game")) | settings
    game = str(settings.get("game", DEFAULT_GAME))
    found = expand(variants, severities, game)
    player = as_agent(agent, deterministic=deterministic, game=canonical(game))
    whose = whose_games(games, player.labels.get("train_seed"))
    tasks = [Task(v, e, int(seed), whose) for v in found for e in range(episodes)]
    played = []
    with Arena(
        n_envs=min(n_envs, len(tasks)),
        workers=workers,
        sticky=sticky,
        frame_limit=frame_limit,
        stuck_after=stuck_after,
        **settings,
    ) as arena:
        require_actions(agent, game, arena.action_space)
        for finished in arena.play(fitted(player, arena.action_space), tasks):
            played.append(finished)
            if progress is not None:
                progress(finished)
    order = {task.key: i for i, task in enumerate(tasks)}
    played.sort(key=lambda one: order[one.task.key])
    frame = table(played, player, sticky)
    frame.attrs["distinct"] = distinct_games(played)
    return frame


def evaluate_model(
    model: Any,
    variants: VariantSpec | Iterable[VariantSpec],
    episodes: int,
    seed: int,
    *,
    stopped: Callable[[], bool] = lambda: False,
    **options: Any,
) -> pd.DataFrame | None:
    """The games of a model in training, as `evaluate` gives them; None once `stopped` says so.

    Plays in its own emulators with its own streams, so training goes on as if nothing had been.
    The games are the shared ones unless asked otherwise: they choose among the checkpoints of one
    run, and a run that was begun by an older version goes on with the games it began with.
    """
    options = {"games": "shared"} | options

    def ask(_: FinishedGame) -> None:
        if stopped():
            raise _Stopped

    try:
        return evaluate(model, variants, episodes, seed, progress=ask, **options)
    except _Stopped:
        return None


def mean_scores(games: pd.DataFrame) -> dict[str, float]:
    """`validation/<variant>` and their mean, `validation/score`, which chooses checkpoints."""
    levels = games["severity"]
    labels = [variant_label(v, s) for v, s in zip(games["variant"], levels, strict=True)]
    means = games["episode_return"].groupby(labels, sort=False).mean()
    scores = {f"{VALIDATION_PREFIX}{name}": float(score) for name, score in means.items()}
    return scores | {VALIDATION_SCORE: float(means.mean())}


class _Stopped(Exception):
    pass


def fitted(agent: Agent, actions: spaces.Space[Any]) -> Agent:
    """The agent, told what actions the game has if it must know."""
    if isinstance(agent, RandomAgent) and agent.n_actions is None and agent.box is None:
        if isinstance(actions, spaces.Box):
            return RandomAgent(box=actions)
        assert isinstance(actions, spaces.Discrete)
        return RandomAgent(int(actions.n))
    return agent


def env_settings(agent: Any, game: str | None = None) -> dict[str, Any]:
    """What a model saw in training (game, stack, size, ...), as far as it can say.

    A model whose environment shows another thing than an ALE game's pictures is refused; where
    that cannot be known, `game` is what the user says.
    """
    env = getattr(agent, "env", None)
    own = getattr(env, "settings", None)
    if own is not None:
        return {key: getattr(own, key) for key in OBSERVED}
    config = getattr(agent, "run_config", None)
    seen = config.get("env") if isinstance(config, Mapping) else None
    if isinstance(seen, Mapping):
        return {key: seen[key] for key in OBSERVED if key in seen}
    kept = getattr(agent, "observed", None)
    if isinstance(kept, Mapping):
        return {key: kept[key] for key in OBSERVED if key in kept}
    space = getattr(agent, "observation_space", None)
    if space is None:
        return {}
    shape: tuple[int, ...] = getattr(space, "shape", None) or ()
    if len(shape) != 3 or shape[1] != shape[2] or str(space.dtype) != "uint8":
        raise UserError(
            f"this {type(agent).__name__} sees {space}, but evaluate() shows uint8 pictures of "
            "(stack, size, size)."
        )
    found: dict[str, Any] = {"stack": int(shape[0]), "size": int(shape[-1])}
    return found if env is None or game else found | {"game": _game_of(agent, env)}


def _game_of(agent: Any, env: Any) -> str:
    """The ALE game behind the environment of a stock model, by the id it was made with."""
    try:
        spec = env.get_attr("spec")[0]
    except Exception:  # whatever a user's own vector environment does where it has none
        spec = None
    name = str(getattr(spec, "id", None) or "without an id")
    word = re.match(r"(?:ALE/)?(\w+?)(?:-?ram)?(?:Deterministic|NoFrameskip)?-v\d+$", name)
    known = {game.replace("_", ""): game for game in all_games()}
    if word is None or word[1].lower() not in known:
        raise UserError(
            f"this {type(agent).__name__} was trained in an environment {name}, which is no game "
            "of ALE that evaluate() could play: it cannot be evaluated."
        )
    return known[word[1].lower()]


def require_actions(agent: Any, game: str, actions: spaces.Space[Any]) -> None:
    """Refuse a model that cannot steer the game it is to play."""
    own = getattr(agent, "action_space", None)
    chosen, there = (getattr(space, "n", None) for space in (own, actions))
    if chosen is not None and there is not None and chosen != there:
        raise UserError(
            f"this {type(agent).__name__} chooses from {chosen} actions, but {game} has "
            f"{there}: say with game= what it was trained on."
        )
    shapes = {None if space is None else space.shape for space in (own or actions, actions)}
    if len(shapes) > 1 or (own is not None and (chosen is None) != (there is None)):
        raise UserError(
            f"this {type(agent).__name__} acts with {own}, but {game} takes {actions}: say with "
            "game= what it was trained on."
        )


def table(games: Iterable[FinishedGame], agent: Contestant, sticky: float) -> pd.DataFrame:
    """One row a game, in the columns every part of the analysis knows."""
    rows = [
        {
            **agent.labels,
            "variant": game.task.variant.name,
            "family": game.task.variant.family,
            "severity": game.task.variant.severity,
            "episode": game.task.episode,
            "eval_seed": game.task.seed,
            "deterministic": agent.deterministic,
            "sticky": float(sticky),
            "episode_return": game.score,
            "length": game.frames,
            "end": game.end,
            "game_seed": game.task.game_seed,
        }
        for game in games
    ]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({"severity": float, "episode_return": float})


def distinct_games(games: Iterable[FinishedGame]) -> dict[str, int]:
    """How many different games there are per variant: greedy agents often play copies of a few."""
    seen: dict[str, set[str]] = {}
    for game in games:
        seen.setdefault(label(game.task.variant), set()).add(game.trajectory)
    return {name: len(digests) for name, digests in seen.items()}
