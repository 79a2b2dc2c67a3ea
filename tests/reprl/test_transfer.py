"""parent.load and encoder.freeze: which tensors are the parent's, which move, which stay."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from reprl import checkpoint
from reprl.algorithms import A2C, DDPG, DQN, PPO, QRDQN, SAC, TD3
from reprl.cli import main
from reprl.config.schema import load
from reprl.envs import make_vec_env
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


OFF_POLICY: dict[str, Any] = {"dqn": DQN, "qrdqn": QRDQN, "sac": SAC, "td3": TD3, "ddpg": DDPG}
NETWORKS = {
    "dqn": ["q_net", "q_net_target"],
    "qrdqn": ["quantile_net", "quantile_net_target"],
    "sac": ["actor", "critic", "critic_target"],
    "td3": ["actor", "actor_target", "critic", "critic_target"],
    "ddpg": ["actor", "actor_target", "critic", "critic_target"],
}


def off_policy(kind: str, seed: int, **more: Any) -> Any:
    """An agent on two stacked pictures of 36 x 36."""
    small: dict[str, Any] = {"size": 36, "stack": 2, "n_envs": 2, "seed": 1, "max_frames": 400}
    discrete = kind in ("dqn", "qrdqn")
    env: Any = Catch(2, stack=2) if discrete else make_vec_env(continuous=True, **small)
    given = {"buffer_size": 40, "learning_starts": 8, "batch_size": 8, "device": "cpu"}
    heads = {"policy_kwargs": {"net_arch": [8]}}
    made = OFF_POLICY[kind]
    return made("CnnPolicy", env, encoder=ENCODER, seed=seed, **given, **heads, **more)


def encoders(parameters: dict[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    """The tensors of each encoder by the network that has it."""
    found: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in parameters.items():
        network, cut, within = name.partition("features_extractor.")
        if cut and name.startswith("policy."):
            found.setdefault(network.removeprefix("policy.").rstrip("."), {})[within] = tensor
    return found


def alike(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def kept(place: Path, model: Any) -> checkpoint.StoredCheckpoint:
    checkpoint.save(model, place)
    return checkpoint.read(place)


@pytest.mark.parametrize("kind", OFF_POLICY)
def test_every_network_begins_with_the_parents_encoder(kind: str, tmp_path: Path) -> None:
    parent = kept(tmp_path, PPO("CnnPolicy", Catch(2, stack=2), encoder=ENCODER, seed=1, **SMALL))
    (theirs,) = encoders(parent.parameters).values()
    model = off_policy(kind, 2)
    made = model.capture().parameters
    take_share(model, parent, "encoder")
    began = model.capture().parameters
    assert sorted(encoders(began)) == NETWORKS[kind]
    for network, tensors in encoders(began).items():
        assert alike(tensors, theirs), network
    for name, tensor in began.items():
        assert ("features_extractor" in name) or torch.equal(tensor, made[name])


def test_an_actor_begins_with_an_actors_encoder_and_others_with_the_critics(tmp_path: Path) -> None:
    parent = kept(tmp_path / "sac", off_policy("sac", 1).learn(40))
    theirs = encoders(parent.parameters)
    assert not alike(theirs["actor"], theirs["critic"])
    assert not alike(theirs["critic"], theirs["critic_target"])
    for kind in OFF_POLICY:
        model = off_policy(kind, 2)
        take_share(model, parent, "encoder")
        for network, tensors in encoders(model.capture().parameters).items():
            role = "actor" if network.startswith("actor") else "critic"
            assert alike(tensors, theirs[role]), network
    one = kept(tmp_path / "one", off_policy("td3", 1, share_encoder=True))
    (only,) = (tensors for name, tensors in encoders(one.parameters).items() if name == "critic")
    model = off_policy("sac", 2)
    take_share(model, one, "encoder")
    assert all(alike(each, only) for each in encoders(model.capture().parameters).values())
    ppo = PPO("CnnPolicy", Catch(2, stack=2), encoder=ENCODER, seed=2, **SMALL)
    take_share(ppo, parent, "encoder")
    assert alike(encoders(ppo.capture().parameters)[""], theirs["critic"])
    with refuses("parent.load=encoder", "attention"):
        take_share(off_policy("sac", 2, attention="conv"), parent, "encoder")
    with refuses("parent.load=policy", "actor"):
        take_share(ppo, parent, "policy")


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
    learner = ["algo=dqn", "algo.buffer_size=64", "algo.learning_starts=16", "algo.batch_size=8"]
    words = [word for word in (*TINY, *small) if not word.startswith("algo.")]
    words += [*learner, "encoder.freeze=true", f"parent={parent}", "parent.load=encoder"]
    assert main(["train", *words, f"run_dir={tmp_path / 'dqn'}"]) == 0
    for step in (0, 32):
        for name, tensor in checkpoint.read(tmp_path / "dqn", step).parameters.items():
            _, inside, within = name.partition(".features_extractor.")
            assert not inside or torch.equal(tensor, theirs[f"policy.features_extractor.{within}"])
    whole = [*small, "env.variant=green_lines", f"parent={parent}", "encoder.freeze=true"]
    assert train(tmp_path / "lines", *whole) == 0
    first, last = (checkpoint.read(tmp_path / "lines", step).parameters for step in (0, 32))
    for name, tensor in theirs.items():
        assert torch.equal(first[name], tensor)
        assert torch.equal(last[name], tensor) is (part(name) == "encoder"), name
