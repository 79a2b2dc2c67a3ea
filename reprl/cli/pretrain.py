"""`reprl pretrain`: `reprl train algo=pretrain` with the words of pretraining."""

from __future__ import annotations

from pathlib import Path

from reprl.cli import train
from reprl.config.overrides import quoted
from reprl.recordings.storage import PLAYERS, RecordedPlay, is_recording
from reprl.runs.places import expanded

HELP = "train an encoder without reward: reprl pretrain data=random auxiliary=spatiotemporal"

USAGE = """reprl pretrain data=random|scripted|DIR auxiliary=NAME total_frames=N [key=value ...]

  data=random|scripted  frames of random or scripted play, recorded as the run begins (frames=N)
  data=DIR              a recording of `reprl record`; game, variant and size are taken from it
  auxiliary=NAME        the loss, or [a,b] for several; those that need reward are refused
  total_frames=N        how many frames minibatches hold in all, each counted as often as drawn
  key=value             any key of `reprl train`; -m, --config-dir and --cfg as there

The encoder is taken with `reprl train parent=DIR parent.load=encoder [encoder.freeze=true]`.
"""
# a word of pretraining -> the key of the configuration
WORDS = {"data": "algo.data", "frames": "algo.frames", "total_frames": "total_steps"}


def run(arguments: list[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(USAGE.rstrip())
        return 0
    train.user_code(train.understand(arguments))  # whose modules a recording may name
    return train.run(translated(arguments))


def translated(arguments: list[str]) -> list[str]:
    """The same run as `reprl train` is asked for it."""
    found, facts = [], []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if key == "data" and equals and value and value not in PLAYERS:
            facts = recorded_facts(expanded(value.strip("'\"")))
        found.append(f"{WORDS[key]}={value}" if equals and key in WORDS else argument)
    return ["algo=pretrain", "eval.every=0", *facts, *found]


def recorded_facts(folder: Path) -> list[str]:
    """The environment that a recording was made in; other words say later that it is none."""
    if not is_recording(folder):
        return []
    facts = RecordedPlay.open(folder).facts
    known = [f"env.game={facts.game}", f"env.size={facts.size}"]
    named = [quoted(variant) for variant in facts.variants]
    known.append(f"env.variant={named[0] if len(named) == 1 else '[' + ','.join(named) + ']'}")
    if facts.background is not None:
        known.append(f"env.background={facts.background}")
    return known
