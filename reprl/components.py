"""Components: names and `_target_` specs to the parts of an agent, ours or a user's own.

`encoder="nature"` or `{"_target_": ...}` -> **spec** (plain data, in every checkpoint) -> class,
imported where `reprl.trust` allows it -> part. The Hydra application and plain Python scripts read
the same YAML in conf/. What a user's code raises becomes one sentence with the line.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from reprl import trust
from reprl.errors import UserError, unknown
from reprl.naming import part_name
from reprl.settings import USE

Spec = str | type | Mapping[str, Any] | Any  # a name, a class, a mapping or such a part itself
# what a group's `_target_` must be derived from; a path, because these modules import this one
BASES = {
    "algo": "reprl.algorithms.base:Algorithm",
    "encoder": "reprl.encoders.base:Encoder",
    "attention": "reprl.encoders.masks:Mask",
    "auxiliary": "reprl.auxiliary.base:AuxiliaryLoss",
    "augmentation": "reprl.augmentation.base:Augmentation",
    "intrinsic": "reprl.intrinsic.base:IntrinsicReward",
    "shaping": "reprl.envs.shaping:RewardShaping",
    "callbacks": "stable_baselines3.common.callbacks:BaseCallback",
}
# what makes a part of a class that is none: kornia's augmentations, a user's nn.Module
ADAPTERS = {"augmentation": "reprl.augmentation.adapter:ModuleAugmentation"}
ADAPTABLE = "reprl.augmentation.adapter:adaptable"

NOT_ARGUMENTS = {
    "augmentation": ("use",),
    "encoder": ("freeze", "init"),
    "attention": ("where", "resolution", "per_frame", "floor", "hard", "optimizer"),
}  # read before the class is called


# what an agent itself gives to a part that it builds
SUPPLIED = {"encoder": ("observation_space",), "attention": ("channels", "size")}


def names(group: str) -> list[str]:
    """The names a group offers, from the YAML files of the package."""
    folder = resources.files("reprl.conf") / group
    return sorted(
        f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")
    )


def resolve(group: str, spec: Spec | None) -> dict[str, Any] | None:
    """Turn a name or a mapping into a plain dict with `_target_`, or None for nothing."""
    if spec is None or spec == "none":
        return None
    if isinstance(spec, str):
        if spec not in names(group):
            raise unknown(group, spec, names(group))
        from omegaconf import OmegaConf  # not in the processes that only play

        text = (resources.files("reprl.conf") / group / f"{spec}.yaml").read_text()
        spec = OmegaConf.to_container(OmegaConf.create(text), resolve=True)  # type: ignore[assignment]
    if isinstance(spec, type):
        spec = {"_target_": spec}
    if not isinstance(spec, Mapping) and _is_part(group, spec):
        spec = _described(group, spec)
    if not isinstance(spec, Mapping):
        kind = type(spec).__name__  # a module's repr has many lines
        raise UserError(f"{group} must be a name, a class or a mapping with _target_, got {kind}.")
    plain = {str(k): v for k, v in spec.items()}
    if "_target_" not in plain and isinstance(plain.get("name"), str):
        named = resolve(group, plain.pop("name"))  # a named part with some keys changed
        plain = {**(named or {}), **plain}
    if isinstance(plain.get("_target_"), type):
        plain["_target_"] = _path_of(group, plain["_target_"])
    if "_target_" not in plain:
        raise UserError(f"{group}: a mapping needs _target_, got {', '.join(plain) or 'no keys'}.")
    return plain if plain["_target_"] else None


def _described(group: str, part: Any) -> dict[str, Any]:
    """The spec of a part that was given as an object, or a refusal."""
    from reprl.instances import arguments_of, has_new_weights  # torch's kinds

    supplied, kind = SUPPLIED.get(group, ()), type(part).__name__
    if (given := arguments_of(part, supplied)) is not None:
        return {"_target_": type(part), **given}
    if supplied and has_new_weights(part):
        raise UserError(
            f"{group}: this {kind} was trained or loaded, and an agent draws its own weights: give "
            f"the class, {kind}, or {{'_target_': {kind}, ...}}, and load weights into the policy "
            "of the agent."
        )
    raise UserError(
        f"{group} must be a name, a class or a mapping with _target_, got {kind}: a checkpoint "
        f"could not build it again, so give its class, {kind}, or {{'_target_': {kind}, ...}} "
        "with its arguments as numbers, text, lists and mappings."
    )


def _is_part(group: str, thing: Any) -> bool:
    """Whether an object is itself a part of the group, or a module that can be made one."""
    if group not in BASES or isinstance(thing, str):
        return False
    if isinstance(thing, imported(BASES[group])):
        return True
    return group in ADAPTERS and bool(imported(ADAPTABLE)(type(thing)))


def _path_of(group: str, cls: type) -> str:
    """The path by which a class is found again; naming it in a script is naming its module."""
    path = f"{cls.__module__}.{cls.__qualname__}"
    if "<locals>" in path:
        raise UserError(
            f"{group}: {cls.__name__} is defined inside a function, where no checkpoint could find "
            "it again: define it in a module."
        )
    return path


def build(group: str, spec: Mapping[str, Any], **extra: Any) -> Any:
    """Call the spec's `_target_` with its other keys; nested specs are left to the target.

    A checkpoint's specs come from a file: whatever else can be imported is refused uncalled.
    """
    path, arguments = spec["_target_"], {k: v for k, v in spec.items() if k != "_target_"}
    target = class_of(group, str(path))
    if not issubclass(target, imported(BASES[group])):
        target, arguments = imported(ADAPTERS[group]), {"module": dict(spec)}
    try:
        return target(**extra, **arguments)
    except (TypeError, ValueError, AssertionError) as error:
        # arguments that do not fit are refused where a constructor is called, or by SB3's checks
        where = traceback.extract_tb(error.__traceback__)[-1]
        called = isinstance(error, TypeError) and where.name in ("build", "__init__")
        if isinstance(error, UserError) or not (called or "stable_baselines3" in where.filename):
            raise
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"{group} '{path}': {said[0].rstrip('.')}.") from error


def class_of(group: str, path: str) -> Any:
    """The class at a path, refused unless it is of the group's kind."""
    try:
        target = imported(path)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{group}: cannot import _target_ '{path}': {described(error)}") from error
    if group in ADAPTERS and imported(ADAPTABLE)(target):
        return target
    if not isinstance(target, type) or not issubclass(target, imported(BASES[group])):
        named = BASES[group].replace(":", ".")
        raise UserError(f"{group}: _target_ '{path}' must be a class derived from {named}.")
    return target


def require_known_keys(group: str, spec: Mapping[str, Any]) -> None:
    """Refuse keys that a class does not take, without building it; nested parts too."""
    if "_target_" not in spec:
        for inner in spec.values():
            if isinstance(inner, Mapping):
                require_known_keys(group, inner)
        return
    target = class_of(group, str(spec["_target_"]))
    if group in ADAPTERS and not (
        isinstance(target, type) and issubclass(target, imported(BASES[group]))
    ):
        return  # somebody else's module, whose adapter knows what it takes
    accepted = parameters_of(target)
    allowed = {*(accepted or ()), "_target_", *NOT_ARGUMENTS.get(group, ())}
    for key in spec:
        if accepted is not None and key not in allowed:
            raise unknown(f"key of {group} {target.__name__}", str(key), accepted)


def parameters_of(cls: type) -> list[str] | None:
    """The names a class's constructor takes, through every **options to its parents; None: any."""
    found: list[str] = []
    for parent in cls.__mro__[:-1]:
        if "__init__" not in vars(parent):
            continue
        _, *declared = inspect.signature(vars(parent)["__init__"]).parameters.values()
        named = [p.name for p in declared if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        found += [name for name in named if name not in found]
        if all(p.kind is not p.VAR_KEYWORD for p in declared):
            return found
    return None


# -- the parts of one agent -----------------------------------------------------------------------

Auxiliary = Spec | Sequence[Spec] | None


@dataclass(frozen=True)
class Specs:
    """The extras of one agent as data that JSON can hold."""

    encoder: dict[str, Any] | None = None
    auxiliary: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> spec
    augmentation: dict[str, Any] | None = None
    use: str = "rad"  # the training batch is augmented, or only the losses' views are
    intrinsic: dict[str, Any] | None = None

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def agent_specs(
    *,
    encoder: Spec | None = None,
    attention: Spec | None = None,
    auxiliary: Auxiliary = None,
    augmentation: Spec | None = None,
    intrinsic: Spec | None = None,
) -> Specs:
    """Look names up and refuse what could not be built again from a checkpoint."""
    encoder_spec = resolve("encoder", encoder)
    attention_spec = resolve("attention", attention)
    auxiliary_specs = _auxiliaries(auxiliary)
    if encoder_spec is None and (auxiliary_specs or attention_spec):
        encoder_spec = resolve("encoder", "nature")
    if attention_spec is not None:
        assert encoder_spec is not None
        encoder_spec = encoder_spec | {"attention": attention_spec}
    augmentation_spec = resolve("augmentation", augmentation)
    use = "rad"
    if augmentation_spec is not None:
        use = USE["use"].checked("augmentation.use", augmentation_spec.pop("use", "rad"))
        if use == "views" and not auxiliary_specs:
            raise UserError(
                "augmentation use=views serves auxiliary losses, but auxiliary is none: "
                "set use=rad or choose an auxiliary loss."
            )
    paid = resolve("intrinsic", intrinsic)
    specs = Specs(encoder_spec, auxiliary_specs, augmentation_spec, use, paid)
    _require_plain(specs)
    return specs


def _auxiliaries(auxiliary: Auxiliary) -> dict[str, dict[str, Any]]:
    if auxiliary is None or auxiliary == "none":
        return {}
    if isinstance(auxiliary, str):
        named: list[tuple[str, Any]] = [(auxiliary, auxiliary)]
    elif isinstance(auxiliary, Mapping):
        single = "_target_" in auxiliary
        named = [(part_name(auxiliary), auxiliary)] if single else list(auxiliary.items())
    elif isinstance(auxiliary, Sequence):
        named = [(_name_of(spec), spec) for spec in auxiliary]
    elif isinstance(auxiliary, type) or _is_part("auxiliary", auxiliary):
        named = [(_name_of(auxiliary), auxiliary)]
    else:
        kind = type(auxiliary).__name__
        raise UserError(f"auxiliary must be a name, a mapping or a list, got {kind}.")
    found: dict[str, dict[str, Any]] = {}
    for name, spec in named:
        if name in found:
            raise UserError(f"auxiliary '{name}' is given twice: name each in a mapping.")
        if (resolved := resolve("auxiliary", spec)) is not None:
            found[name] = resolved
    return found


def _name_of(spec: Any) -> str:
    """What a loss is called where nobody names it."""
    known = isinstance(spec, str | Mapping)
    return part_name(spec if known else resolve("auxiliary", spec))


def _require_plain(specs: Specs) -> None:
    for part, spec in specs.plain().items():
        try:
            json.dumps(spec, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"{part} could not be saved with a checkpoint: {error}; give numbers, text, lists "
                "and mappings only."
            ) from None


# -- a user's own code ----------------------------------------------------------------------------


def imported(path: str) -> Any:
    """The object at "module:object" or, as Hydra writes it, "module.object".

    Whose module may be imported is decided in `reprl.trust`; the caller checks what the object is.
    """
    module, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    trust.require(module, path)
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name == top and (
            Path(f"{top}.py").is_file() or Path(top, "__init__.py").is_file()
        ):
            hint = f"{error}; {top} in the current folder is found with --config-dir=. only"
            raise ModuleNotFoundError(hint, name=error.name) from None
        raise
    for name in attribute.split("."):
        found = getattr(found, name)
    return found


@contextmanager
def blamed(folders: Iterable[str]) -> Iterator[None]:
    """Turn what the user's modules in `folders` raise into a UserError."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        line = own_line(error, folders)
        if line is None:
            raise
        raise UserError(f"{line} raised {described(error)}") from error


def described(error: BaseException) -> str:
    """An exception in one line, with the name of its kind."""
    first = (str(error).strip() or "without a word").splitlines()[0].rstrip(".:")
    return f"{type(error).__name__}: {first}."


def own_line(error: BaseException, folders: Iterable[str]) -> str | None:
    """The innermost line of the user's code that an exception passed, as `f() in mine.py:12`."""
    places = [Path(f).resolve() for f in folders]
    loaded = list(sys.modules.items())
    ours = {getattr(m, "__file__", None) for name, m in loaded if name.split(".")[0] == "reprl"}
    installed = Path(sys.prefix).resolve()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename).resolve()
        if frame.filename in ours or file.is_relative_to(installed):
            continue
        if any(file.is_relative_to(place) for place in places):
            return f"{frame.name}() in {file.name}:{frame.lineno}"
    return None
