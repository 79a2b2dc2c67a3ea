"""What a run may be set to: types, ranges and cross-field checks of the composed configuration.

`check` turns the dict of `reprl.config.compose` into a `Config` or says, in one sentence and before
anything heavy is imported, what is wrong; `Config.warnings` names what is unusual.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from reprl.config.checks import (
    check_actions,
    check_algo,
    check_attainable,
    check_batches,
    check_curriculum,
    check_gpus,
    check_gymnasium,
    check_imitation,
    check_intrinsic,
    check_mirrors,
    check_motion,
    check_parent,
    check_pretraining,
    check_procgen,
    check_ranks,
    check_shaping,
    check_variants,
    device_of,
)
from reprl.config.compose import compose, selections
from reprl.config.inheritance import inherited, parent_named, with_parents_choices
from reprl.config.overrides import flatten
from reprl.config.placement import AUTO, LEFT_OPEN, Chosen, ranks_under_torchrun
from reprl.distributed.environment import place
from reprl.envs.defaults import CLEAN, GYMNASIUM, PROCGEN, without_later
from reprl.errors import UserError, nearest
from reprl.naming import in_game, method_of, parts_of
from reprl.precision import BF16, FP32, PRECISIONS, quick_at_bf16, settled
from reprl.schedules import TARGET
from reprl.schema import CHOSEN
from reprl.settings import (
    CURRICULA,
    DISTRIBUTIONS,
    ENV,
    EPISODES,
    MODES,
    OBSERVATIONS,
    RANKS,
    SEED,
    STEPS,
    THREADS,
    check_hard,
    declared,
)
from reprl.validation import Flag, Number, Setting, choice, flag

NOT_COUNTED = ("progress", "wandb", "media", "choices", "run_dir", "profile")


@dataclass(frozen=True)
class Env:
    game: str
    variant: Any  # a name, or a list of them
    severity: float | None = field(metadata={"range": ENV["severity"]})
    n_envs: int = field(metadata={"range": ENV["n_envs"]})
    workers: int = field(metadata={"range": ENV["workers"]})
    sticky: float = field(metadata={"range": ENV["sticky"]})
    stack: int = field(metadata={"range": ENV["stack"]})
    gap: int = field(metadata={"range": ENV["gap"]})
    size: int = field(metadata={"range": ENV["size"]})
    noop_max: int = field(metadata={"range": ENV["noop_max"]})
    max_frames: int = field(metadata={"range": ENV["max_frames"]})
    reward: Any  # clip, raw, a factor, or None to clip
    background: float | str | None = field(default=None, metadata={"range": ENV["background"]})
    observation: str = field(default="frames", metadata={"choices": OBSERVATIONS})
    missed: float = field(default=0.0, metadata={"range": ENV["missed"]})
    mislabelled: float = field(default=0.0, metadata={"range": ENV["mislabelled"]})
    shifted: int = field(default=0, metadata={"range": ENV["shifted"]})
    gray: bool = field(default=True, metadata={"range": ENV["gray"]})
    skip: int = field(default=4, metadata={"range": ENV["skip"]})
    levels: int = field(default=200, metadata={"range": ENV["levels"]})
    start_level: int = field(default=0, metadata={"range": ENV["start_level"]})
    distribution: str = field(default="easy", metadata={"choices": DISTRIBUTIONS})
    continuous: bool = field(default=False, metadata={"range": ENV["continuous"]})
    curriculum: str | None = field(default=None, metadata={"choices": CURRICULA})
    stage: Any = None  # steps of a stage, a list of steps, or a score; what it means is curriculum

    @property
    def variants(self) -> list[Any]:
        return list(self.variant) if isinstance(self.variant, list) else [self.variant]


@dataclass(frozen=True)
class Checkpoint:
    every: int = field(metadata={"range": STEPS})
    keep: int = field(metadata={"range": Number(1, 10_000, whole=True)})


@dataclass(frozen=True)
class Eval:
    every: int = field(metadata={"range": Number(0, whole=True)})
    variants: Any
    episodes: int = field(metadata={"range": EPISODES})


@dataclass(frozen=True)
class Stop:
    score: float | None = field(default=None, metadata={"range": Number(optional=True)})
    games: int = field(default=100, metadata={"range": Number(1, 100, whole=True)})
    step: int | None = field(default=None, metadata={"range": replace(STEPS, optional=True)})


@dataclass(frozen=True)
class Log:
    every: int = field(metadata={"range": STEPS})


@dataclass(frozen=True)
class Config:
    """A whole run, checked; the five parts are specs with `_target_`, or empty."""

    algo: dict[str, Any]
    encoder: dict[str, Any]
    attention: dict[str, Any]
    auxiliary: dict[str, Any]
    augmentation: dict[str, Any]
    env: Env
    total_steps: int = field(metadata={"range": Number(1, 10**12, whole=True)})
    seed: int = field(metadata={"range": SEED})
    mode: str = field(metadata={"choices": MODES})
    device: str
    threads: int = field(metadata={"range": THREADS})
    checkpoint: Checkpoint
    eval: Eval
    log: Log
    run_dir: str | None
    parent: str | None
    progress: str = field(metadata={"choices": ("auto", "off")})
    wandb: str = field(metadata={"choices": ("off", "offline", "online")})
    choices: dict[str, Any]
    callbacks: Any = None  # name -> spec of an SB3 callback
    media: int = field(default=0, metadata={"range": Number(0, 2000, whole=True)})
    parent_load: str = "all"  # parent.load= on the command line
    ranks: int = field(default=1, metadata={"range": RANKS})
    precision: str = field(default=FP32, metadata={"choices": PRECISIONS})
    stop: Stop = field(default_factory=Stop)
    intrinsic: dict[str, Any] = field(default_factory=dict)  # a spec with _target_, or empty
    shaping: dict[str, Any] = field(default_factory=dict)  # the same
    profile: bool = field(default=False, metadata={"range": Flag()})

    @property
    def rollout(self) -> int:
        """Steps between two updates."""
        steps = self.algo.get("train_freq", self.algo.get("n_steps", 1))  # off-policy, on-policy
        return int(steps) * self.env.n_envs

    @property
    def last_step(self) -> int:
        """The step at which this run ends; its schedules go on to total_steps."""
        return min(self.total_steps, self.stop.step or self.total_steps)

    @property
    def method(self) -> str:
        """What distinguishes this agent from others, in one word: ppo-nature-conv-curl-cutout.

        One of another game than Breakout begins with that: pong-ppo-nature.
        """
        return in_game(method_of(parts_of(self.plain())), asdict(self.env))

    def plain(self) -> dict[str, Any]:
        """The configuration as config.yaml holds it: everything but where it was written."""
        found = {key: value for key, value in asdict(self).items() if key != "run_dir"}
        found["env"] = without_later(found["env"])  # as versions that had no such keys wrote it
        for key in ("curriculum", "stage"):
            if found["env"][key] is None:
                found["env"].pop(key)
        if not found["callbacks"]:
            found.pop("callbacks")
        if found["ranks"] == 1:
            found.pop("ranks")
        if found["precision"] == FP32:
            found.pop("precision")
        if found["stop"]["step"] is None:
            found["stop"].pop("step")
        if found["stop"].keys() == {"score", "games"} and found["stop"]["score"] is None:
            found.pop("stop")
        for part in ("intrinsic", "shaping"):
            if not found[part]:
                found.pop(part)
        if not found["profile"]:
            found.pop("profile")
        if found["parent_load"] == "all":
            found.pop("parent_load")
        return found

    @property
    def hash(self) -> str:
        """Identifies what is computed; how it is shown and where it is written do not count."""
        return hash_of(self.plain())

    def hparams(self) -> dict[str, Any]:
        """The settings as a flat table, with the chosen parts by their names."""
        named = {k: str(v) for k, v in self.choices.items() if isinstance(v, str)}
        flat = flatten(counted(self.plain()))
        return named | {
            k: v
            for k, v in flat.items()
            if isinstance(v, bool | int | float | str) and k not in named
        }

    def warnings(self) -> list[str]:
        """What is allowed but unusual, one sentence each."""
        found = _unusual(self)
        if self.total_steps < self.rollout:
            found.append(
                f"total_steps={self.total_steps} is less than one rollout of {self.rollout} steps."
            )
        cores = len(os.sched_getaffinity(0))
        if self.threads > cores:
            found.append(f"threads={self.threads} on {cores} cores: they will wait for each other.")
        elif self.ranks * self.threads > cores and self.ranks > 1 and place() is None:
            found.append(
                f"ranks={self.ranks} x threads={self.threads} on {cores} cores: they will wait for "
                "each other."
            )
        if self.precision == BF16 and not quick_at_bf16(self.device):
            found.append(
                f"precision=bf16 on {self.device}, which has no instructions for it: it will be "
                "slower than fp32."
            )
        phases, rollouts = self.algo.get("n_policy_phases"), -(-self.total_steps // self.rollout)
        if phases and self.algo.get("auxiliary_epochs") and rollouts < phases:
            found.append(
                f"algo.n_policy_phases={phases} rollouts of {self.rollout} steps are more than "
                f"total_steps={self.total_steps} has: no auxiliary phase ever comes."
            )
        batch = self.algo.get("batch_size")
        if batch and "n_epochs" in self.algo and self.rollout % batch:
            found.append(
                f"algo.batch_size={batch} does not divide the rollout of {self.rollout} steps: the "
                "last minibatch of each epoch is smaller."
            )
        return found


def counted(values: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a configuration that decides what is computed."""
    return {key: value for key, value in values.items() if key not in NOT_COUNTED}


def hash_of(values: Mapping[str, Any]) -> str:
    """The hash of a configuration, as a run has it or as config.yaml holds it."""
    text = json.dumps(counted(values), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def load(overrides: list[str], config_dirs: Iterable[Path] = ()) -> Config:
    """From overrides to a checked run: what `reprl train` does first."""
    config_dirs = list(config_dirs)
    said, parent = overrides, parent_named(overrides)
    if parent is not None:
        overrides = with_parents_choices(overrides, config_dirs, parent)
    values = compose(overrides, config_dirs)
    if parent is not None:
        values = inherited(values, said, config_dirs, parent)
    chosen = selections(overrides, config_dirs)
    yaml_values = _yaml_values(tuple(chosen), tuple(config_dirs))
    known = {key: setting for key, _, _, setting in _settings(values)}
    for key, value in flatten(values).items():
        # what a YAML of this run declares as a number stays one; a mapping is a schedule
        was = yaml_values.get(key)
        if value == AUTO and key in LEFT_OPEN:
            continue
        if isinstance(was, bool):
            flag(key, value)
        elif isinstance(was, int | float):
            (known.get(key) or _declared(key) or Number()).checked(
                key, "null" if value is None else value
            )
        elif value is None and f"{key}.start" in yaml_values:
            raise UserError(f"{key}=null must be a number or a schedule.")
    if (here := place()) is not None and here.size > 1:
        values["ranks"] = ranks_under_torchrun(values.get("ranks", 1), here.size)
    config = check(values)
    check_attainable(config)
    if config.env.game.startswith(PROCGEN):
        from reprl.envs.procgen_levels import require_envpool

        require_envpool()
    return config


@lru_cache(maxsize=64)
def _yaml_values(chosen: tuple[str, ...], config_dirs: tuple[Path, ...]) -> dict[str, Any]:
    return flatten(compose(list(chosen), config_dirs))


def check(values: Mapping[str, Any]) -> Config:
    """Check a composed configuration; the first thing wrong raises a UserError."""
    values = dict(values)
    chosen_for = Chosen.of(values)
    for part in CHOSEN:
        values[part] = _part(part, values.get(part))
        chosen = (values.get("choices") or {}).get(part)
        if not values[part] and isinstance(chosen, str) and chosen != "none":
            raise UserError(f"{part}={chosen} names nothing to build: its YAML needs a _target_.")
    if isinstance(values.get("eval"), Mapping) and isinstance(values["eval"].get("variants"), str):
        values["eval"] = {**values["eval"], "variants": [values["eval"]["variants"]]}
    values["callbacks"] = values.get("callbacks") or None
    _check_callbacks(values["callbacks"] or {})
    if isinstance(values.get("env"), Mapping):
        values["env"] = procgen_named(gymnasium_named(values["env"]))
    if isinstance(values.get("env"), Mapping) and isinstance(values["env"].get("game"), str):
        from reprl.envs.games import canonical  # knows ALE's names

        values["env"] = {**values["env"], "game": canonical(values["env"]["game"])}
    config: Config = _build(Config, values, "")
    check_algo(config)
    if chosen_for.ranks:  # as many as cores or as GPUs
        config = replace(config, device=device_of(config.device))
    config = chosen_for.settled(config)
    check_batches(config)
    check_ranks(config)
    check_curriculum(config)
    check_intrinsic(config)
    check_shaping(config)
    check_imitation(config)  # a game without such a player may lack the variants too
    check_procgen(config)
    check_variants(config)
    check_hard(config.attention.get("hard"))
    check_motion(config)
    check_mirrors(config)
    check_parent(config)
    check_pretraining(config)
    check_gymnasium(config)
    check_actions(config)
    device = device_of(config.device)
    check_gpus(device, config.ranks)
    precision = settled(config.precision, mode=config.mode, device=device)
    return replace(config, device=device, precision=precision)


# what ALE's games are set to and environments of gymnasium have nothing of
NOT_OF_GYMNASIUM: dict[str, Any] = {
    "variant": CLEAN,
    "severity": None,
    "workers": 0,
    "sticky": 0.0,
    "stack": 1,
    "gap": 1,
    "size": 84,
    "noop_max": 0,
    "background": None,
}


NOT_OF_PROCGEN = NOT_OF_GYMNASIUM | {"size": 64}


def gymnasium_named(env: Mapping[str, Any]) -> dict[str, Any]:
    """An `env` section that names an environment of gymnasium by `id`, as any other game's."""
    if "id" not in env:
        return dict(env)
    given = {key: value for key, value in env.items() if key != "id"}
    if not isinstance(env["id"], str) or not env["id"].strip():
        raise UserError(f"env.id={env['id']} must be an id of gymnasium, such as CartPole-v1.")
    if given.get("workers"):
        raise UserError(
            f"env.workers={given['workers']}: environments of gymnasium play in the run's own "
            "process; set env.workers=0."
        )
    return {**NOT_OF_GYMNASIUM, **given, "game": f"{GYMNASIUM}{env['id'].strip()}"}


def procgen_named(env: Mapping[str, Any]) -> dict[str, Any]:
    """An `env` section of Procgen's, which alone names its levels, as any other game's."""
    game = env.get("game")
    if not isinstance(game, str) or not (game.startswith(PROCGEN) or "levels" in env):
        return dict(env)
    name = game if game.startswith(PROCGEN) else f"{PROCGEN}{game.strip()}"
    return {**NOT_OF_PROCGEN, **env, "game": name}


def _check_callbacks(specs: Any) -> None:
    if not isinstance(specs, Mapping):
        raise UserError(f"callbacks={specs!r} must be a mapping of names to specs with _target_.")
    for name, spec in specs.items():
        if not _is_spec(spec) or not isinstance(spec["_target_"], str):
            raise UserError(
                f"callbacks.{name}={spec!r} must be a mapping with _target_, the path of a class "
                "derived from stable_baselines3's BaseCallback."
            )


def _build(cls: type, values: Any, prefix: str) -> Any:
    if not isinstance(values, Mapping):
        raise UserError(f"{prefix.rstrip('.')}={values!r} is not a section of keys.")
    known = {f.name: f for f in fields(cls)}
    for key in values:
        if key not in known:
            raise UserError(
                f"there is no key '{prefix}{key}' in the configuration.{nearest(key, known)}"
            )
    hints, built = get_type_hints(cls), {}
    for name, known_field in known.items():
        missing = known_field.default is MISSING and known_field.default_factory is MISSING
        if name not in values and missing:
            raise UserError(f"the configuration has no {prefix}{name}.")
        if name not in values:
            continue  # an older version's configuration: the default says what it did
        hint, value = hints[name], values[name]
        if hasattr(hint, "__dataclass_fields__"):
            built[name] = _build(hint, value, f"{prefix}{name}.")
        else:
            built[name] = _value(f"{prefix}{name}", value, hint, known_field.metadata)
    return cls(**built)


def _value(key: str, value: Any, hint: Any, metadata: Mapping[str, Any]) -> Any:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if value is None and type(None) in kinds:
        return None
    if int in kinds or float in kinds or bool in kinds:
        return metadata["range"].checked(key, value)
    if str in kinds:
        # YAML reads an unquoted off as false
        value = {False: "off", True: "on"}[value] if isinstance(value, bool) else value
        if "choices" in metadata:
            return choice(key, value, metadata["choices"])
        if not isinstance(value, str) or not value.strip():
            raise UserError(f"{key}={value!r} must be text.")
        if value == "???":  # OmegaConf's sign for what is still to be given
            raise UserError(f"{key}=??? is no value: give one, or leave {key} out.")
    return value


def _part(part: str, spec: Any) -> dict[str, Any]:
    if spec is None:
        return {}
    if not isinstance(spec, Mapping):
        raise UserError(f"{part}={spec!r} must be a name of `reprl list {part}`.")
    plain = {str(k): v for k, v in spec.items()}
    if isinstance(plain.get("_target_"), str) and not plain["_target_"].strip():
        raise UserError(f"{part}._target_= is empty: name a class, or choose {part}=none.")
    if plain.get("_target_", ...) is None:
        plain.pop("_target_")
        if any(not isinstance(v, Mapping) for v in plain.values()):
            raise UserError(f"{part} is none, so it has no key '{part}.{next(iter(plain))}'.")
    if plain and "_target_" not in plain and not all(_is_spec(v) for v in plain.values()):
        raise UserError(f"{part} must be a mapping with _target_, got the keys {', '.join(plain)}.")
    plain = copy.deepcopy(plain)
    for key, holder, name, setting in declared(part, part, plain):
        value = holder[name]
        if isinstance(setting, Number):
            holder[name] = setting.checked(key, value)
        elif setting is not None:
            setting.checked(key, value)
        elif isinstance(value, float):
            Number().checked(key, value)  # no checkpoint could hold what is not finite
    return plain


def _is_spec(value: Any) -> bool:
    return isinstance(value, Mapping) and "_target_" in value


def _settings(values: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any, Setting | None]]:
    for part in CHOSEN:
        if isinstance(values.get(part), dict):
            yield from declared(part, part, values[part])


def _unusual(config: Config) -> list[str]:
    plain = config.plain()
    known = {key: setting for key, _, _, setting in _settings(plain)}
    found, flat = [], flatten(plain)
    for key, value in flat.items():
        owner, _, end = key.rpartition(".")
        if f"{owner}.{TARGET}" in flat and owner in known:
            continue  # an argument of a schedule of the user's own
        allowed = known.get(key) or known.get(owner) or _declared(key)
        usual = allowed.usual if isinstance(allowed, Number) else (-math.inf, math.inf)
        # a schedule may end anywhere and climb for as long as it likes
        if end in ("end", "warmup") or not isinstance(value, int | float):
            continue
        if not usual[0] <= value <= usual[1]:
            found.append(f"{key}={value:g} is unusual: {usual[0]:g} to {usual[1]:g} is common.")
    return found


def _declared(key: str) -> Number | None:
    cls: Any = Config
    for name in key.split("."):
        known = {f.name: f for f in fields(cls)}
        if name not in known:
            return None
        cls = get_type_hints(cls)[name]
        if not hasattr(cls, "__dataclass_fields__"):
            found: Number | None = known[name].metadata.get("range")
            return found
    return None
