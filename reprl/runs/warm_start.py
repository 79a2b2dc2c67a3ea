"""A run that begins at another's checkpoint: `parent=DIR` at its newest, `parent=DIR@step`.

`parent.load` says what is taken: all of it, the policy, or the encoder alone, which fits another
game, other heads, other losses and another algorithm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from reprl import checkpoint
from reprl.auxiliary.modules import Momentum
from reprl.config.schema import Config
from reprl.distributed.ranks import OneRank
from reprl.errors import UserError
from reprl.evaluation.archives import archive, load
from reprl.naming import completed
from reprl.runs.folder import open_run
from reprl.runs.places import parent_of

if TYPE_CHECKING:
    from reprl.algorithms.base import Algorithm
    from reprl.checkpoint import StoredCheckpoint

# what tensors are called within a network -> full name and tensor
Share = dict[str, tuple[str, Tensor]]
COURSE = (
    *("env", "encoder", "attention", "auxiliary", "augmentation", "intrinsic", "shaping"),
    *("seed", "threads", "mode", "device", "ranks"),
)
# a share of the parameters -> how their names begin, with the network that has one of its own
SHARES = {
    "policy": re.compile(r"policy\.()"),
    "encoder": re.compile(
        r"policy\.(?:((?:q_net|quantile_net|critic|actor)(?:_target)?)\.)?features_extractor\."
    ),
}
# of several encoders the one that auxiliary losses train, and that others begin with
LEADING = ("", "q_net", "quantile_net", "critic", "actor")


def branch(model: Algorithm, config: Config, ranks: OneRank | None = None) -> None:
    """Give a new agent the state of its parent's checkpoint.

    Where game and agent are the parent's, the run goes on from the parent's step exactly as the
    parent did; otherwise it begins at step 0 with the parent's weights, or with the share of them
    that `parent.load` names.
    """
    assert config.parent is not None
    path, step = parent_of(config.parent)
    is_archive = path.is_file()
    # a model of Stable-Baselines3 has a policy and no losses
    share = "policy" if is_archive and config.parent_load == "all" else config.parent_load
    stored = _of_archive(path, config, share) if is_archive else checkpoint.read(path, step)
    if share != "all":
        take_share(model, stored, share)
        print(
            f"parent: the {share} of {path} at step {stored.step} is taken; this run "
            "begins at step 0 with a fresh optimizer."
        )
        return
    checkpoint.require_same_shapes(model, stored)
    weights_only = stored.meta.get("weights_only", False)
    shape = model.replay_shape
    different = ["published weights only"] if weights_only else differences(config, path, shape)
    if not different:
        if stored.step >= config.last_step:
            key = "total_steps" if config.last_step == config.total_steps else "stop.step"
            raise UserError(
                f"{key}={config.last_step} is not beyond the parent's step {stored.step}."
            )
        model.restore(checkpoint.of_rank(stored, 0 if ranks is None else ranks.rank))
        if ranks is None or ranks.rank == 0:
            at = f"{stored.step:,}"
            print(f"parent: {path} goes on from step {at} in this run, exactly as it was.")
    else:
        print(
            f"parent: not the same course ({', '.join(different)}), so only the weights of "
            f"{path} at step {stored.step} are taken; this run begins at step 0 with a fresh "
            "optimizer."
        )
        fresh = model.capture()
        model.restore(replace(fresh, parameters=stored.parameters))


def _of_archive(file: Path, config: Config, share: str) -> StoredCheckpoint:
    """A model of Stable-Baselines3 as the parameters of a checkpoint; ours have its names.

    Its encoder alone may come from any game.
    """
    game = config.env.game
    stock = load(file)[1] if share == "encoder" else archive(file, None, game).model
    named = {**dict(stock.policy.named_parameters()), **dict(stock.policy.named_buffers())}
    parameters = {f"policy.{name}": tensor.detach().clone() for name, tensor in named.items()}
    step = int(stock.num_timesteps)
    return checkpoint.StoredCheckpoint(parameters, {}, {}, {}, {}, file, step)


def take_share(model: Algorithm, stored: StoredCheckpoint, share: str) -> None:
    """Put the parent's `policy` or `encoder` into a new agent; the rest of it stays as made.

    Where several networks have an encoder, all begin with the parent's: the actor with its actor's,
    if it has one, and a target network as its online network.
    """
    fresh = model.capture()
    ours, theirs = (_share(p, share) for p in (fresh.parameters, stored.parameters))
    if not ours:
        raise UserError(f"parent.load={share}: this algorithm has no encoder of that kind.")
    leading = next((theirs[network] for network in LEADING if network in theirs), {})
    taken: dict[str, Tensor] = {}
    for network, begun in ours.items():
        given = theirs.get(network.removesuffix("_target"), leading)
        _require_same_layers(begun, given, f"parent.load={share}: {stored.path}")
        taken |= {begun[name][0]: tensor for name, (_, tensor) in given.items()}
    model.restore(replace(fresh, parameters=fresh.parameters | taken))
    for module in model.modules().values():
        for part in module.modules():
            if isinstance(part, Momentum):  # made as a copy of what has just been replaced
                part.begin()


def _require_same_layers(ours: Share, theirs: Share, what: str) -> None:
    """Refuse a share of other layers or sizes, by the first that differs."""
    where = f"{what} is of another shape"
    for name in [*ours, *theirs]:
        if name not in theirs or name not in ours:
            who, other = ("it has", "the run") if name in theirs else ("the run has", "it")
            raise UserError(f"{where}: {who} {name}, which {other} does not have.")
        one, two = tuple(theirs[name][1].shape), tuple(ours[name][1].shape)
        if one != two:
            raise UserError(f"{where}: {name} is {one} there and {two} in the run.")


def _share(parameters: dict[str, Tensor], share: str) -> dict[str, Share]:
    """The tensors of a share, by the network that has them ("" where there is only one)."""
    found: dict[str, Share] = {}
    for name, tensor in parameters.items():
        if match := SHARES[share].match(name):
            found.setdefault(match[1] or "", {})[name[match.end() :]] = (name, tensor)
    return found


def differences(config: Config, parent: Path, shape: Iterable[str] = ()) -> list[str]:
    """Keys in which a branch leaves its parent's course; where there are none, all state goes on.

    Device and mode belong to them, because the last bits of a step depend on both; so do the keys
    of the algorithm that give its replay buffer its `shape`.
    """
    if not (parent / "config.yaml").exists():
        return ["no config.yaml"]
    theirs = open_run(parent).config()
    found = [
        name
        for name in COURSE
        if completed(name, getattr(config, name)) != completed(name, getattr(theirs, name))
    ]
    keys: dict[str, Any] = {"_target_": None, "n_steps": None, "optimizer": "adam"}
    keys |= dict.fromkeys(shape)
    if config.mode == theirs.mode == "fast":
        keys["compile"] = True
    # a key that an older configuration does not have stands for its default
    ours, other = ({k: c.algo.get(k, d) for k, d in keys.items()} for c in (config, theirs))
    return found + [f"algo.{key}" for key in keys if ours[key] != other[key]]
