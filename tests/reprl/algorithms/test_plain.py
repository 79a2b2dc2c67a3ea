"""Arguments as plain data: what comes back is what was given, or it is refused."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from stable_baselines3.common.policies import ActorCriticCnnPolicy

from reprl.checkpoint.serialization import decode, encode
from reprl.errors import UserError
from reprl.schedules import schedule
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
        with pytest.raises(UserError, match=r"arguments.learning_rate=.* cannot be saved"):
            encode("arguments", {"learning_rate": value})
    with pytest.raises(UserError, match="activation_fn=.* cannot be saved"):
        encode("policy_kwargs.activation_fn", torch.relu)


@pytest.mark.parametrize(
    ("name", "path", "message"),
    [
        ("learning_rate", "no_such_module:rate", "'no_such_module:rate' is not found: ModuleNotF"),
        ("learning_rate", "os:no_such_rate", "is not found: AttributeError"),
        ("learning_rate", "os:system", "'os:system' is not a function"),
        ("learning_rate", "subprocess:Popen", "is not a function"),
        ("features_extractor_class", "subprocess:run", "is not a module or optimizer"),
        ("optimizer_class", "subprocess:Popen", "is not a module or optimizer"),
        ("policy", "os:system", "saved policy 'os:system' is not a module or optimizer"),
    ],
)
def test_a_file_cannot_name_anything_else(name: str, path: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        decode({name: {"~import": path}})
