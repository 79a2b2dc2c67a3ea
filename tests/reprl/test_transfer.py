"""parent.load and encoder.freeze: which tensors are the parent's, which move, which stay."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from reprl import checkpoint
from reprl.algorithms import A2C, PPO
from reprl.cli import main
from reprl.config.schema import load
from reprl.naming import is_plain, method_name
from reprl.runs.warm_start import take_share
from tests.helpers import Commands, refuses
from tests.runs import TINY, make_run, train
from tests.toys.catch import Catch

SMALL: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "n_epochs": 1}
ENCODER = {"_target_": "reprl.encoders.Nature", "features_dim": 16}
PARTS = ("encoder", "heads", "losses")


def part(name: str) -> str:
    if name.startswith("policy.features_extractor."):
        return "encoder"
    return "heads" if name.startswith("policy.") else "losses"


def agent(seed: int, *, freeze: bool = False, kind: Any = PPO, **more: Any) -> Any:
    settings = SMALL if kind is PPO else {"n_steps": 8}
    encoder = ENCODER | ({"freeze": True} if freeze else {})
    given = {"auxiliary": "contrastive"} | more
    return kind("CnnPolicy", Catch(), encoder=encoder, seed=seed, **given, **settings)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> checkpoint.StoredCheckpoint:
    place = tmp_path_factory.mktemp("parent")
    checkpoint.save(agent(1).learn(32), place)
    return checkpoint.read(place)


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize(
    ("share", "taken"), [(None, ()), ("encoder", ("encoder",)), ("policy", ("encoder", "heads"))]
)
def test_the_table_of_docs_pretraining(
    share: str | None, taken: tuple[str, ...], freeze: bool, stored: checkpoint.StoredCheckpoint
) -> None:
    model = agent(2, freeze=freeze)
    made = model.capture().parameters
    if share is not None:
        take_share(model, stored, share)
    began = model.capture().parameters
    trained = [n for n, p in model.auxiliary.named_parameters() if p.requires_grad]
    model.learn(32)
    ended = model.capture().parameters
    assert {part(name) for name in began} == set(PARTS)
    for name, tensor in began.items():
        source = stored.parameters if part(name) in taken else made
        key = name.removeprefix("auxiliary.contrastive.key_encoder.copy.")
        if key != name:  # the momentum copy begins as its encoder, wherever that is from
            source, key = began, f"policy.features_extractor.{key}"
            assert torch.equal(tensor, source[key])
            assert torch.equal(ended[name], tensor) is freeze
            continue
        assert torch.equal(tensor, source[name]), name
        if part(name) == "losses" and name.removeprefix("auxiliary.") not in trained:
            continue  # key_projection: it follows its head
        still = freeze and part(name) == "encoder"
        assert torch.equal(ended[name], tensor) is still, name


def test_the_encoder_fits_other_heads_losses_and_algorithms(
    stored: checkpoint.StoredCheckpoint,
) -> None:
    model = agent(3, kind=A2C, auxiliary="reconstruction")
    take_share(model, stored, "encoder")
    for name, tensor in model.capture().parameters.items():
        if part(name) == "encoder":
            assert torch.equal(tensor, stored.parameters[name])
    assert model.num_timesteps == 0
    with refuses("parent.load=encoder", "linear.0.weight", "(16,", "(24,"):
        wide = PPO("CnnPolicy", Catch(), encoder=ENCODER | {"features_dim": 24}, **SMALL)
        take_share(wide, stored, "encoder")
    with refuses("parent.load=encoder", "the run has", "attention"):
        masked = PPO("CnnPolicy", Catch(), encoder=ENCODER, attention="conv", **SMALL)
        take_share(masked, stored, "encoder")


def test_a_frozen_agent_goes_on_with_the_same_bits() -> None:
    made = partial(agent, 4, freeze=True, instrument_every=1)
    whole, captured = made().learn(64), made().learn(32).capture()
    second = made()
    second.restore(captured)
    second.learn(32, reset_num_timesteps=False)
    for name, tensor in whole.capture().parameters.items():
        assert torch.equal(tensor, second.capture().parameters[name]), name
    assert "gradient/rl_norm" not in whole.logger.name_to_value  # there is no gradient to speak of
    assert "features/effective_rank" in whole.logger.name_to_value


def test_the_configuration_knows_both_keys() -> None:
    plain, frozen = load(TINY), load([*TINY, "encoder.freeze=true"])
    assert "freeze" not in plain.encoder
    assert "parent_load" not in plain.plain()
    assert load([*TINY, "encoder.freeze=false"]).method == plain.method == "ppo-nature"
    assert frozen.encoder["freeze"] is True
    assert frozen.method == "ppo-nature_frozen"
    assert method_name(frozen.plain()) == "ppo nature_frozen"
    assert is_plain(plain.plain())
    assert not is_plain(frozen.plain())
    with refuses("encoder.freeze=often", "true or false"):
        load([*TINY, "encoder.freeze=often"])
    with refuses("parent.load=encoder", "parent=DIR"):
        load([*TINY, "parent.load=encoder"])
    with refuses("parent.load=encodr", "'encoder'"):
        load([*TINY, "parent=agent:imitation", "parent.load=encodr"])


@pytest.mark.slow
def test_from_one_game_and_variant_to_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of a parent needs the same actions; its encoder goes anywhere."""
    parent = make_run(tmp_path / "parent", **{"encoder.features_dim": 16})
    small = ["env.size=36", "env.stack=2", "total_steps=32", "eval.every=0", "checkpoint.every=32"]
    small += ["algo.learning_rate=1e-3"]  # a schedule would end at 0 with the only update
    other = ["env.game=pong", "env.variant=original", "encoder.freeze=true"]
    Commands(capsys).refuse(
        ["train", *TINY, *small, *other, f"parent={parent}", f"run_dir={tmp_path / 'no'}"],
        "action_net", "(4,", "(6,",
    )  # fmt: skip
    run = [*small, *other, f"parent={parent}", "parent.load=encoder"]
    assert train(tmp_path / "pong", *run) == 0
    assert "the encoder of" in capsys.readouterr().out
    theirs = checkpoint.read(parent).parameters
    for step in (0, 32):
        for name, tensor in checkpoint.read(tmp_path / "pong", step).parameters.items():
            if part(name) == "encoder":
                assert torch.equal(tensor, theirs[name])
    assert main(["resume", str(tmp_path / "pong")]) == 0
    whole = [*small, "env.variant=green_lines", f"parent={parent}", "encoder.freeze=true"]
    assert train(tmp_path / "lines", *whole) == 0
    first, last = (checkpoint.read(tmp_path / "lines", step).parameters for step in (0, 32))
    for name, tensor in theirs.items():
        assert torch.equal(first[name], tensor)
        assert torch.equal(last[name], tensor) is (part(name) == "encoder"), name
