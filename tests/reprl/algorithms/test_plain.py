"""Arguments as plain data: what comes back is what was given, or it is refused."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from stable_baselines3.common.policies import ActorCriticCnnPolicy

from reprl.checkpoint.serialization import decode, encode
from reprl.schedules import schedule
from tests.helpers import refuses
from tests.reprl.algorithms.parts import falling_rate


class Rates:
    """Two rates that only an object knows."""

    def own(self, progress: float) -> float:
        return progress

    @classmethod
    def of_all(cls, progress: float) -> float:
        return progress

    @staticmethod
    def free(progress: float) -> float:
        return progress


def test_what_can_be_imported_comes_back() -> None:
    given: dict[str, Any] = {
        "policy": ActorCriticCnnPolicy,
        "learning_rate": falling_rate,
        "clip_range": Rates.free,
        "policy_kwargs": {"optimizer_class": torch.optim.AdamW, "net_arch": [{"pi": [8]}]},
    }
    assert decode(encode("arguments", given)) == given
    linear = schedule({"start": 1.0, "end": 0.0})
    assert decode(encode("ent_coef", linear)).plain() == linear.plain()


def test_what_another_process_would_not_find_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    script = ModuleType("__main__")
    exec("def rate(progress):\n    return progress", script.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", script)
    hidden = [script.rate, Rates().own, Rates.of_all, lambda progress: progress]
    for value in hidden:
        with refuses("arguments.learning_rate="):
            encode("arguments", {"learning_rate": value})
    with refuses("activation_fn="):
        encode("policy_kwargs.activation_fn", torch.relu)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("learning_rate", "no_such_module:rate"),
        ("learning_rate", "os:no_such_rate"),
        ("learning_rate", "os:system"),
        ("learning_rate", "subprocess:Popen"),
        ("features_extractor_class", "subprocess:run"),
        ("optimizer_class", "subprocess:Popen"),
        ("policy", "os:system"),
    ],
)
def test_a_file_cannot_name_anything_else(name: str, path: str) -> None:
    with refuses(name, f"'{path}'"):
        decode({name: {"~import": path}})
