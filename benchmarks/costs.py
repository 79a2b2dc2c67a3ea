"""What each part costs: parameters and time of one update against the plain agent, batch 256.

`python -m benchmarks.costs [--quick] [--only WORD ...]`: every encoder, mask, loss and augmentation
of conf/, the pieces of xresnet one by one, eager and single-threaded, in CPU time, the least of all
rounds: neither the number of cores nor other work decides. `--only xresnet` leaves the parts with
that word in their names, and plain.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.common import load_warning, machine, table
from reprl import components
from reprl.algorithms import PPO
from reprl.envs import make_vec_env

BATCH = 256
NUMBERS = ("mlp", "mlp_256")  # encoders of numbers, not of pictures
COLOURS = ("color_jitter",)  # augmentations of three channels


@dataclass(frozen=True)
class Contender:
    """An agent to be measured, and what is taken out of its encoder before that."""

    extras: dict[str, Any] = field(default_factory=dict)
    change: Callable[[nn.Module], None] = lambda encoder: None


def contenders() -> dict[str, Contender]:
    """Every part alone; losses that need a mask are measured on the 7x7 one."""
    found = {"plain": Contender()}
    for name in components.names("encoder"):
        if name not in ("nature", *NUMBERS):
            found[f"encoder={name}"] = Contender({"encoder": name})
        if name == "xresnet":
            found |= pieces()
    for name in components.names("attention"):
        if name != "none":
            found[f"attention={name}"] = Contender({"attention": name})
    for name in components.names("auxiliary"):
        if name != "none":
            parts = {"attention": "conv", "auxiliary": name}
            found[f"auxiliary={name} (on attention=conv)"] = Contender(parts)
    for name in components.names("augmentation"):
        if name not in ("none", *COLOURS):
            found[f"augmentation={name}"] = Contender({"augmentation": name})
    return found


def pieces() -> dict[str, Contender]:
    """xresnet with each of its keys the other way round, and without what is no key."""
    keys = {"squeeze": False, "separable": True, "self_attention": True}
    found = {
        f"encoder=xresnet encoder.{key}={str(value).lower()}": Contender(
            {"encoder": {"name": "xresnet", key: value}}
        )
        for key, value in keys.items()
    }
    taken_out = {
        "without its group normalisation": (nn.GroupNorm, nn.Identity),
        "with ReLU for swish": (nn.SiLU, nn.ReLU),
    }
    for words, (old, new) in taken_out.items():
        change = partial(replace_layers, old=old, new=new)
        found[f"encoder=xresnet {words} (no key)"] = Contender({"encoder": "xresnet"}, change)
    return found


def replace_layers(module: nn.Module, old: type[nn.Module], new: type[nn.Module]) -> None:
    """Put a fresh `new` in the place of every layer of the class `old`."""
    for name, child in module.named_children():
        if isinstance(child, old):
            child.requires_grad_(False)  # the optimizer still has it
            setattr(module, name, new())
        else:
            replace_layers(child, old, new)


def build(contender: Contender) -> tuple[Callable[[], None], int]:
    """A function that runs one update of one batch, and the number of trained parameters."""
    env = make_vec_env(n_envs=8, seed=0)
    model = PPO(
        "CnnPolicy", env, n_steps=BATCH // 8, batch_size=BATCH, n_epochs=1, seed=0, device="cpu",
        instrument_every=10**9, **contender.extras,
    )  # fmt: skip
    contender.change(model.policy.features_extractor)
    model.learn(2 * BATCH)
    trained = [p for g in model.policy.optimizer.param_groups for p in g["params"]]
    return model.train, sum(p.numel() for p in trained if p.requires_grad)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 9")
    parser.add_argument("--only", nargs="+", default=[""], help="words in the names of parts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warning = load_warning()
    chosen = {
        name: contender
        for name, contender in contenders().items()
        if name == "plain" or any(word in name for word in options.only)
    }
    built = {name: build(contender) for name, contender in chosen.items()}
    seconds: dict[str, list[float]] = {name: [] for name in built}
    for _ in range(3 if options.quick else 9):
        for name, (update, _) in built.items():
            began = time.process_time()
            update()
            seconds[name].append(time.process_time() - began)
    plain, weights = min(seconds["plain"]), built["plain"][1]
    rows = [
        [
            name,
            f"{count / 1e6:.2f} M",
            f"{count / weights:.2f}",
            f"{min(seconds[name]) / plain:.2f}",
        ]
        for name, (_, count) in built.items()
    ]
    print(f"{machine()} {warning} One plain update of {BATCH}: {1e3 * plain:.0f} ms.\n")
    print(table(["part", "parameters", "against plain", "update time against plain"], rows))


if __name__ == "__main__":
    main()
