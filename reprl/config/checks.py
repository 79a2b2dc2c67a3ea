"""What the values of a configuration must be together and on this machine: ends `config.check`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from reprl import trust
from reprl.config.placement import gpu_count, machine_cores, shares_minibatches
from reprl.distributed.environment import here_on_machine
from reprl.envs.defaults import GYMNASIUM, PROCGEN
from reprl.errors import UserError, nearest
from reprl.naming import class_name
from reprl.settings import (
    CLASSES,
    CURRICULA,
    LOADS,
    NOT_HERE,
    STAGE,
    WITHOUT_RANGE,
    check_noise_goal,
)
from reprl.validation import choice, flag

if TYPE_CHECKING:
    from reprl.config.schema import Config

# of NVIDIA's driver, on Tegra, in WSL, and of AMD's
DRIVERS = ("/dev/nvidiactl", "/dev/nvhost-ctrl-gpu", "/dev/dxg", "/dev/kfd")
CONTINUOUS = ("SAC", "TD3", "DDPG")  # algorithms for continuous actions
# algorithms without a fast mode
ON_RAY = ("IMPALA", "APEX")  # trained by RLlib, with losses of its own alone
PLAIN_ONLY = ("Reinforce", "DQN", "QRDQN", "RecurrentPPO", *CONTINUOUS, *ON_RAY)
# what takes an intrinsic reward
EXPLORING = ("PPO", "A2C", "Reinforce", "PPG", "IDAAC", "RecurrentPPO")
FLAGS = (
    *("compile", "normalize_advantage", "use_rms_prop", "baseline"),
    *("double", "dueling", "prioritized", "share_encoder"),
)
PICTURE_ENCODERS = ("Nature", "NaturePadded", "Impala", "XResNet")
MIRRORING = (".Flip", ".RandomHorizontalFlip")
FED_CHANGE = ("differences", "both")  # values of encoder.input


def check_algo(config: Config) -> None:
    """Refuse keys that the algorithm does not have, and those of SB3's that say nothing here."""
    words = re.split(r"[.:]", str(config.algo.get("_target_")))
    if words[0] != "reprl" or words[-1] not in WITHOUT_RANGE:
        return  # of a class of the user's own only that class knows
    known = [*CLASSES[words[-1]], *WITHOUT_RANGE[words[-1]], "_target_"]
    for key, value in config.algo.items():
        if key in NOT_HERE:
            raise UserError(f"algo.{key}={value} cannot be set: {NOT_HERE[key]}.")
        if key not in known:
            raise _unknown_key(config, key, words[-1], known)
    if words[-1] in PLAIN_ONLY and config.mode != "plain":
        name = config.choices.get("algo")
        raise UserError(f"algo={name} has no fast mode: set mode=plain.")
    if words[-1] in ON_RAY:
        _check_actors(config)
    for key in FLAGS:
        if key in config.algo and key in WITHOUT_RANGE[words[-1]]:
            flag(f"algo.{key}", config.algo[key])


def _unknown_key(config: Config, key: str, algorithm: str, known: list[str]) -> UserError:
    """What to say of a key that the algorithm has not: an experiment may be what set it."""
    says = f"there is no key 'algo.{key}' for {algorithm}"
    name = config.choices.get("experiment")
    strange = {f"algo.{k}" for k in config.algo if k not in known}
    foreign = sorted(strange & _sets(name)) if name else []
    if f"algo.{key}" not in foreign:
        return UserError(f"{says}.{nearest(key, known)}")
    without = " ".join(f"'~{key}'" for key in foreign)
    return UserError(
        f"{says}: experiment={name} sets it for another algorithm. Leave the experiment out, or "
        f"add {without}."
    )


def _sets(experiment: str) -> set[str]:
    """The keys of `algo` that a shipped experiment sets; none of one of the user's own."""
    file = resources.files("reprl.conf") / "experiment" / f"{experiment}.yaml"
    if not file.is_file():
        return set()
    said = yaml.safe_load(file.read_text())
    bases = [base for base in said.get("defaults", ()) if isinstance(base, str)]
    return {f"algo.{key}" for key in said.get("algo", {})}.union(*map(_sets, bases))


def _check_actors(config: Config) -> None:
    """Refuse what the actors and the learner of a cluster cannot take."""
    name, runners = config.choices.get("algo"), config.algo.get("runners", 2)
    for part in ("auxiliary", "augmentation"):
        if getattr(config, part):
            raise UserError(
                f"{part}={config.choices.get(part)}: algo={name} has no {part}; set {part}=none."
            )
    if config.env.workers:
        raise UserError(
            f"env.workers={config.env.workers}: algo={name} plays in its actors, algo.runners="
            f"{runners} of them; set env.workers=0."
        )
    if config.env.n_envs % runners:
        raise UserError(
            f"env.n_envs={config.env.n_envs} cannot be dealt out to algo.runners={runners} evenly: "
            f"choose a multiple of {runners}."
        )
    if config.profile:
        raise UserError(
            f"profile=true sees one process, and algo={name} plays and learns in Ray's: leave it "
            "out."
        )
    if config.env.curriculum is not None:
        raise UserError(
            f"env.curriculum={config.env.curriculum}: the actors of algo={name} play what they "
            "began with; leave it out."
        )


def check_batches(config: Config) -> None:
    """Refuse a rollout that cannot be dealt out to environments, workers and minibatches."""
    batch = config.algo.get("batch_size")
    # algorithms without epochs draw from more than a rollout
    if batch and "n_epochs" in config.algo and batch > config.rollout:
        raise UserError(
            f"algo.batch_size={batch} is larger than a rollout: algo.n_steps="
            f"{config.algo.get('n_steps')} x env.n_envs={config.env.n_envs} = {config.rollout}."
        )
    phase, phases = config.algo.get("auxiliary_batch_size"), config.algo.get("n_policy_phases")
    if phase and phases and config.algo.get("auxiliary_epochs") and phase > phases * config.rollout:
        raise UserError(
            f"algo.auxiliary_batch_size={phase} is larger than what an auxiliary phase learns "
            f"from: algo.n_policy_phases={phases} rollouts of {config.rollout} steps."
        )
    if config.rollout < 2 and "train_freq" not in config.algo:
        raise UserError("algo.n_steps x env.n_envs must be at least 2, to have a minibatch.")
    if config.env.workers > config.env.n_envs:
        raise UserError(
            f"env.workers={config.env.workers} is more than env.n_envs={config.env.n_envs}: a "
            "worker needs at least one environment."
        )


def check_ranks(config: Config) -> None:
    """Refuse ranks that cannot each have the same share of environments and minibatches."""
    ranks, env = config.ranks, config.env
    if ranks == 1:
        return
    if config.stop.score is not None:
        raise UserError(
            f"stop.score={config.stop.score:g} is decided by one process: set ranks=1, not {ranks}."
        )
    if config.stop.step is not None:
        raise UserError(
            f"stop.step={config.stop.step} is for one process: set ranks=1, not {ranks}."
        )
    if not shares_minibatches(config.algo):
        name = config.choices.get("algo") or config.algo.get("_target_")
        raise UserError(f"ranks={ranks}: algo={name} trains in one process; set ranks=1.")
    if ranks > env.n_envs:
        raise UserError(
            f"ranks={ranks} is more than env.n_envs={env.n_envs}: a rank needs at least one "
            "environment."
        )
    if env.n_envs % ranks:
        raise UserError(
            f"env.n_envs={env.n_envs} cannot be dealt out to ranks={ranks} evenly: choose a "
            f"multiple of {ranks}, such as {env.n_envs - env.n_envs % ranks}."
        )
    batch = config.algo.get("batch_size")
    if batch and batch % ranks:
        raise UserError(
            f"algo.batch_size={batch} cannot be dealt out to ranks={ranks} evenly: choose a "
            f"multiple of {ranks}, such as {batch + ranks - batch % ranks}."
        )
    if env.workers > env.n_envs // ranks:
        raise UserError(
            f"env.workers={env.workers} is more than the {env.n_envs // ranks} environments that "
            f"each of ranks={ranks} has."
        )
    if env.workers and ranks * env.workers > (cores := machine_cores()):
        raise UserError(
            f"ranks={ranks} with env.workers={env.workers} are {ranks * env.workers} more "
            f"processes on {cores} cores: set env.workers=0, and each rank plays its own games."
        )


def check_curriculum(config: Config) -> None:
    """Refuse stages that say nothing, or nobody to play them."""
    kind, stage = config.env.curriculum, config.env.stage
    if kind is None:
        if stage is not None:
            raise UserError(
                f"env.stage={stage} belongs to a curriculum: choose env.curriculum from "
                f"{', '.join(CURRICULA)}."
            )
        return
    stages = config.env.variants
    if len(stages) < 2:
        raise UserError(
            f"env.curriculum={kind} needs stages: name several variants, as in "
            "env.variant=[original,green_lines]."
        )
    if stage is None:
        raise UserError(f"env.curriculum={kind} needs env.stage: {STAGE[kind]}.")
    STAGE[kind].checked("env.stage", stage)
    if kind == "schedule" and (len(stage) != len(stages) - 1 or sorted(set(stage)) != stage):
        raise UserError(
            f"env.stage={stage} must be {len(stages) - 1} growing steps, at which the stages after "
            f"the first of {len(stages)} begin."
        )
    if config.ranks > 1:
        raise UserError(f"env.curriculum={kind} is for one process: set ranks=1.")
    if str(config.algo.get("_target_")).endswith("algorithms.Pretraining"):
        raise UserError(f"env.curriculum={kind} is for training in games, not for pretraining.")


def check_intrinsic(config: Config) -> None:
    """Refuse an intrinsic reward where nothing adds it to the game's."""
    if not config.intrinsic:
        return
    name, algo = config.choices.get("intrinsic"), config.choices.get("algo")
    words = re.split(r"[.:]", str(config.algo.get("_target_")))
    if words[0] == "reprl" and words[-1] not in EXPLORING:
        raise UserError(
            f"intrinsic={name}: algo={algo} takes no intrinsic reward; choose algo=ppo, a2c, "
            "reinforce, ppg, idaac or recurrent_ppo."
        )
    if config.ranks > 1:
        raise UserError(f"intrinsic={name} is scaled by one process: set ranks=1.")


def check_shaping(config: Config) -> None:
    """Refuse shaping of rewards that nobody learns from, or in a game that it cannot work in."""
    if not config.shaping:
        return
    name, target = config.choices.get("shaping"), str(config.shaping.get("_target_"))
    if str(config.algo.get("_target_")).endswith("algorithms.Pretraining"):
        raise UserError(f"shaping={name}: pretraining learns without reward; set shaping=none.")
    if not target.startswith("reprl.") or trust.looks_only():
        return  # of a class of the user's own only that class knows
    from reprl.envs.games import game
    from reprl.envs.shaping import checked_shaping, with_discount

    spec = with_discount(config.shaping, config.algo.get("gamma"))
    checked_shaping(spec, game(config.env.game), training=True)


def check_variants(config: Config) -> None:
    """Refuse games and variants that are not there, or have no environment."""
    from reprl.envs.checks import reward_mode
    from reprl.envs.games import game
    from reprl.envs.observation import check_observation
    from reprl.envs.variation import find

    reward_mode(config.env.reward, training=True, key="env.reward")
    # a command that only looks imports no code of the user's: neither their game nor their variants
    game_is_known = not (trust.looks_only() and trust.names_user_code(config.env.game))
    if game_is_known:
        game(config.env.game)  # refuses one that is not there
        check_observation(config.env, game(config.env.game), "env.")
    if config.env.curriculum is None and len(config.env.variants) > config.env.n_envs:
        raise UserError(
            f"env.variant names {len(config.env.variants)} variants, more than "
            f"env.n_envs={config.env.n_envs}: each needs an environment."
        )
    if not config.env.variants or not isinstance(config.eval.variants, list):
        raise UserError("env.variant and eval.variants must name at least one variant.")
    meant = [(variant, config.env.severity) for variant in config.env.variants]
    for variant, severity in [*meant, *((variant, None) for variant in config.eval.variants)]:
        if game_is_known and not (trust.looks_only() and trust.names_user_code(variant)):
            find(variant, severity, config.env.game)
    if config.eval.every and not config.eval.variants:
        raise UserError("eval.variants=[] is empty: name a variant, or set eval.every=0.")


def check_gymnasium(config: Config) -> None:
    """Refuse what works on pictures where an environment of gymnasium shows numbers."""
    game = config.env.game
    if not game.startswith(GYMNASIUM) or (trust.looks_only() and trust.names_user_code(game)):
        return
    from reprl.envs.gymnasium_ids import sees_pictures, spaces_of

    if config.env.continuous:
        raise UserError(
            f"env.continuous=true is ALE's: {game} has {spaces_of(game)[1]} as its actions."
        )
    if sees_pictures(game):
        return
    shown = spaces_of(game)[0]
    wanted = {part: config.choices.get(part) for part in ("attention", "auxiliary", "augmentation")}
    named = [f"{part}={wanted[part]}" for part in wanted if getattr(config, part)]
    named += ["mode=fast"] if config.mode == "fast" else []
    if class_name(config.encoder.get("_target_")) in PICTURE_ENCODERS:
        named.append(f"encoder={config.choices.get('encoder')}")
    if named:
        verb = "works" if len(named) == 1 else "work"
        raise UserError(
            f"{' and '.join(named)} {verb} on pictures, and {game} shows numbers ({shown}): choose "
            "encoder=mlp, mode=plain and no attention, auxiliary or augmentation."
        )


def check_procgen(config: Config) -> None:
    """Refuse levels that a game of Procgen does not have, and settings that are ALE's."""
    env = config.env
    if not env.game.startswith(PROCGEN):
        return
    from reprl.envs.games import game
    from reprl.envs.procgen_names import check_levels, require_levels

    game(env.game)  # refuses one that is not there
    if (env.stack, env.size) != (1, 64):
        raise UserError(
            f"env.game={env.game} is set otherwise than ALE's games: env=procgen "
            f"env.game={env.game.removeprefix(PROCGEN)}."
        )
    check_levels(env, "env.")
    for variant in (*env.variants, *config.eval.variants):
        require_levels(env, variant, "env.")


def check_actions(config: Config) -> None:
    """Refuse an algorithm for discrete actions where they are continuous, and the reverse."""
    words = re.split(r"[.:]", str(config.algo.get("_target_")))
    game, plays_numbers = config.env.game, words[-1] in CONTINUOUS
    if words[0] != "reprl" or (trust.looks_only() and trust.names_user_code(game)):
        return
    if not (game.startswith(GYMNASIUM) or config.env.continuous or plays_numbers):
        return  # a game of ALE, which would have to be loaded
    from gymnasium import spaces

    from reprl.envs.games import action_space_of

    space, algo = action_space_of(game, config.env.continuous), config.choices.get("algo")
    if isinstance(space, spaces.Box) and not plays_numbers:
        raise UserError(
            f"algo={algo} chooses among discrete actions, and {game} has continuous actions "
            f"({space}): choose algo=sac, td3 or ddpg."
        )
    if isinstance(space, spaces.Box) and not np.isfinite([space.low, space.high]).all():
        raise UserError(f"{game} has actions without limits ({space}), which no algorithm takes.")
    if not isinstance(space, spaces.Box) and plays_numbers:
        count = getattr(space, "n", "other")
        raise UserError(
            f"algo={algo} acts with continuous numbers, and {game} has {count} discrete actions: "
            "choose an environment with continuous ones, or in a game of ALE env.continuous=true."
        )


def check_imitation(config: Config) -> None:
    """Refuse imitation where nobody is there to be imitated."""
    from reprl.envs.games import game, no_script

    name = config.env.game
    if config.algo.get("_target_") != "reprl.algorithms.Imitation":
        return
    if trust.looks_only() and trust.names_user_code(name):
        return
    if game(name).scripted is None:
        raise UserError(no_script(f"algo={config.choices.get('algo')}", name))


def check_attainable(config: Config) -> None:
    """Refuse a new run that waits for what never comes; what older versions began is still read."""
    if class_name(config.algo.get("_target_")) in CONTINUOUS:
        check_noise_goal(config.algo.get("noise_goal"), config.algo.get("noise"))
    words = re.split(r"[.:]", str(config.algo.get("_target_")))
    starts, total = config.algo.get("learning_starts"), config.total_steps
    if words[0] == "reprl" and isinstance(starts, int) and starts >= total:
        raise UserError(
            f"algo.learning_starts={starts} with total_steps={total} would never learn: set it "
            f"below {total}, or train for longer."
        )
    if config.stop.score is None:
        return
    judged = f"stop.score={config.stop.score:g}"
    if str(config.algo.get("_target_")).endswith("algorithms.Pretraining"):
        raise UserError(f"{judged} is a score in games, of which pretraining plays none.")
    kept = config.algo.get("stats_window_size")
    if isinstance(kept, int) and kept < config.stop.games:
        raise UserError(
            f"{judged} is judged by stop.games={config.stop.games} games, and "
            f"algo.stats_window_size={kept} keeps fewer: set stop.games to at most {kept}."
        )


def check_motion(config: Config) -> None:
    """Refuse parts that see change where a stack of one frame cannot show any."""
    if config.env.stack > 1:
        return
    named = {part: str(config.choices.get(part)) for part in ("attention", "auxiliary")}
    wanted = [f"encoder.input={fed}"] if (fed := config.encoder.get("input")) in FED_CHANGE else []
    if str(config.attention.get("_target_")).endswith(".MotionMask"):
        wanted.append(f"attention={named['attention']}")
    losses = [config.auxiliary, *config.auxiliary.values()]
    if any(
        isinstance(s, dict) and str(s.get("_target_")).endswith(".MotionTarget") for s in losses
    ):
        wanted.append(f"auxiliary={named['auxiliary']}")
    if wanted:
        words = " and ".join(wanted)
        if config.env.game.startswith((GYMNASIUM, PROCGEN)):
            raise UserError(
                f"{words} would never see change: environments of this kind show one picture at a "
                "time, without a stack."
            )
        raise UserError(
            f"{words} with env.stack=1 would never see change: set env.stack to 2 or more."
        )


def check_mirrors(config: Config) -> None:
    """Refuse pictures mirrored left to right in a game that is not its own mirror image."""
    from reprl.envs.games import game

    if trust.looks_only() and trust.names_user_code(config.env.game):
        return
    if not game(config.env.game).symmetric:
        for part in ("augmentation", "auxiliary"):
            if flips := [t for t in _targets(getattr(config, part)) if t.endswith(MIRRORING)]:
                raise UserError(
                    f"{part}={config.choices.get(part)} mirrors pictures ({flips[0]}), and "
                    f"{config.env.game} is not its own mirror image: choose another."
                )


def _targets(spec: Any) -> Iterator[str]:
    """Every class that a spec names, itself or deeper; names of options stand for their classes."""
    if isinstance(spec, str):
        yield f".{spec.title()}" if spec == "flip" else ""
    elif isinstance(spec, Mapping):
        yield str(spec.get("_target_", ""))
        for key, value in spec.items():
            if key != "_target_":
                yield from _targets(value)
    elif isinstance(spec, list | tuple):
        for value in spec:
            yield from _targets(value)


def check_parent(config: Config) -> None:
    """Refuse a share of a parent that is none, or that nobody gives."""
    choice("parent.load", config.parent_load, LOADS)
    if config.parent_load != "all" and config.parent is None:
        raise UserError(f"parent.load={config.parent_load} needs the run to load from: parent=DIR.")


def check_pretraining(config: Config) -> None:
    """Refuse a pretraining without losses, without frames or without an encoder to train."""
    if not str(config.algo.get("_target_")).endswith("algorithms.Pretraining"):
        return
    if not config.auxiliary:
        raise UserError(
            "pretraining learns from auxiliary losses alone, and auxiliary is none: choose one of "
            "`reprl list auxiliary`."
        )
    if config.encoder.get("freeze"):
        raise UserError(
            "encoder.freeze=true leaves pretraining nothing to train: freeze the encoder in the "
            "run that takes it with parent.load=encoder."
        )
    data = config.algo.get("data")
    if not isinstance(data, str) or not data.strip():
        raise UserError(f"data={data} must be random, scripted or the folder of a recording.")


def device_of(device: str) -> str:
    """The device that is meant, if this machine has it."""
    if device == "cpu":
        return device
    if device != "auto" and not device.startswith("cuda"):
        choice("device", device, ("auto", "cpu", "cuda"))
    if device == "auto" and not may_have_gpu():
        return "cpu"
    count = gpu_count()
    if device == "auto":
        device = "cuda" if count else "cpu"
    elif count == 0:
        raise UserError(f"device={device}: this machine has no CUDA device; use device=cpu.")
    elif ":" in device and not (device[5:].isdigit() and int(device[5:]) < count):
        raise UserError(f"device={device}: this machine has {count} CUDA device(s), from cuda:0.")
    return device


def check_gpus(device: str, ranks: int) -> None:
    """Refuse ranks of one machine that would have to share a GPU."""
    if ranks == 1 or not device.startswith("cuda"):
        return
    if device != "cuda":
        raise UserError(
            f"device={device} is one GPU, and ranks={ranks} need one each: set device=cuda, and "
            "every rank takes its own."
        )
    if (here := here_on_machine(ranks)) > (gpus := gpu_count()):
        raise UserError(
            f"ranks={ranks} with device=cuda: {here} ranks on this machine, which has {gpus} CUDA "
            "device(s); every rank needs its own."
        )


def may_have_gpu(drivers: tuple[str, ...] = DRIVERS) -> bool:
    """Whether torch is worth asking, which takes two seconds: on Linux a driver leaves a file."""
    return sys.platform != "linux" or any(os.path.exists(file) for file in drivers)
