"""`sweep=pbt` without Ray: what it refuses, what members begin with, and who came from whom."""

import importlib.util
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reprl import checkpoint
from reprl.cli import main
from reprl.config.schema import Stop, load
from reprl.runs.train import make_env, make_model, start
from reprl.settings import LIVE, algorithm_keys
from reprl.sweeps.plan import PopulationSettings
from reprl.sweeps.population import Lineage, drawn, plan, require_same, said_of, within
from reprl.sweeps.search import Interval
from tests.helpers import refuses

RUN = [
    *("env=gymnasium", "device=cpu", "env.n_envs=2", "total_steps=256", "algo.batch_size=16"),
    *("algo.n_steps=16", "algo.clip_range=0.2", "sweep=pbt", "sweep.members=3"),
    "sweep.interval=100",
]
SAC = ("algo=sac", "env.id=Pendulum-v1")
RATE = "algo.learning_rate=tag(log,interval(1e-6,1e-2))"
GAMMA = "algo.gamma=0.9,0.99,0.999"


def test_a_population_is_planned_from_the_command_line(tmp_path: Path) -> None:
    made = plan([*RUN, RATE, GAMMA, "seed=5", f"run_dir={tmp_path}"], [])
    assert made.about == PopulationSettings(members=3, interval=100)
    assert (made.rounds, [made.end_of(n) for n in (1, 2, 3)]) == (3, [100, 200, 256])
    begun = [made.beginning(member) for member in range(3)]
    again = plan([*RUN, RATE, GAMMA, "seed=5", f"run_dir={tmp_path}"], [])
    assert begun == [again.beginning(member) for member in range(3)]
    assert len({values["algo.learning_rate"] for values in begun}) == 3
    for values in begun:
        assert 1e-6 <= float(values["algo.learning_rate"]) <= 1e-2
        assert values["algo.gamma"] in ("0.9", "0.99", "0.999")
    job = made.piece(1, 2, begun[1], seed=6, parent=None)
    assert (job.config.total_steps, job.config.last_step) == (256, 200)
    assert job.config.seed == 6
    assert job.config.algo["learning_rate"] == begun[1]["algo.learning_rate"]
    assert job.config.algo["gamma"] == float(begun[1]["algo.gamma"])
    assert job.config.eval.every == 100  # a member is judged at the end of a round
    other = made.piece(1, 2, {**begun[1], "algo.gamma": "0.9"}, seed=6, parent=None)
    assert (other.identity == job.identity) == (begun[1]["algo.gamma"] == "0.9")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([RATE, "sweep.members=1"], ["sweep.members=1"]),
        ([RATE, "sweep.interval=0"], ["sweep.interval=0"]),
        ([RATE, "sweep.interval=16"], ["sweep.interval=16", "rollout"]),
        ([RATE, "sweep.interval=256"], ["sweep.interval=256", "total_steps=256"]),
        ([RATE, "sweep.quantile=0.7"], ["sweep.quantile=0.7"]),
        ([RATE, "sweep.resample=2"], ["sweep.resample=2"]),
        ([RATE, "sweep.address=nowhere"], ["sweep.address=nowhere", "HOST:PORT"]),
        ([RATE, "sweep.trials=3"], ["sweep.members", "sweep.trials"]),
        ([RATE, "eval.every=0"], ["eval.every=0"]),
        ([RATE, "parent=runs/x"], ["parent=runs/x", "leave it out"]),
        ([RATE, "hydra/launcher=ray"], ["hydra/launcher=ray"]),
        ([RATE, "seed=1,2"], ["seed=1,2"]),
        ([RATE, "stop.step=128"], ["stop.step=128", "leave it out"]),
        ([RATE, "stop.score=9"], ["stop.score=9", "leave it out"]),
        ([RATE, "total_steps=110"], ["sweep.interval=100", "total_steps=110", "128"]),
        ([RATE, "algo=impala"], ["algo=impala", "exactly"]),
        (
            [RATE, "algo=pretrain", "auxiliary=contrastive", "env=breakout"],
            ["algo=pretrain", "games"],
        ),
        ([], ["sweep=pbt has nothing"]),
        (["env.n_envs=2,4"], ["env.n_envs", "cannot change"]),
        (["algo.n_steps=16,32"], ["algo.n_steps", "cannot change", "algo.learning_rate"]),
        (["encoder.hidden=[64],[32]"], ["encoder.hidden", "cannot change"]),
        (["+algo.policy_kwargs.log_std_init=0,1"], ["policy_kwargs", "algo.learning_rate"]),
        (["algo.lstm_size=8,16", "algo=recurrent_ppo"], ["algo.lstm_size", "algo.gamma"]),
        (["algo.memory=lstm,gru", "algo=recurrent_ppo"], ["algo.memory", "algo.gamma"]),
        (["algo.n_quantiles=5,9", "algo=qrdqn"], ["algo.n_quantiles", "algo.gamma"]),
        (["algo.dueling=true,false", "algo=dqn"], ["algo.dueling", "algo.double"]),
        (["algo.prioritized=true,false", "algo=dqn"], ["algo.prioritized", "algo.double"]),
        (["algo.buffer_size=500,900", "algo=dqn"], ["algo.buffer_size", "algo.double"]),
        (["algo.share_encoder=true,false", *SAC], ["algo.share_encoder", "algo.tau"]),
        (["algo.noise=none,ou", *SAC], ["algo.noise'", "algo.tau"]),
        (["algo.ent_coef=auto,0.1", *SAC], ["algo.ent_coef=auto", "leave auto out"]),
        (["algo.order_hidden=0,8", "algo=idaac"], ["algo.order_hidden", "algo.order_coef"]),
        (["algo.order_coef=interval(0,0.1)", "algo=idaac"], ["algo.order_coef=0", "leave 0 out"]),
        (["algo.learning_rate=interval(0.5,2)"], ["algo.learning_rate"]),
        (["algo.gama=0.9,0.99"], ["gama", "gamma"]),
    ],
)
def test_what_a_population_cannot_be_is_one_sentence(
    words: list[str], said: list[str], tmp_path: Path
) -> None:
    keys = {word.partition("=")[0] for word in words}
    if "algo" in keys:  # of another algorithm than the one that the run is set to
        keys |= {"algo.n_steps", "algo.batch_size", "algo.clip_range"}
    rest = [word for word in RUN if word.partition("=")[0] not in keys]
    if {"algo=dqn", "algo=qrdqn", "algo=sac"} & {*words}:
        rest.append("algo.learning_starts=32")
    with refuses(*said):
        plan([*rest, *words, f"run_dir={tmp_path}"], [])


def test_keys_of_a_population_alone_say_what_is_missing() -> None:
    for word, said in {
        "sweep.interval=5": "sweep=pbt",
        "sweep.quantile=0.2": "sweep=pbt",
        "sweep.members=2": "sweep.interval",
    }.items():
        with refuses(word.partition("=")[0], said):
            from reprl.sweeps.plan import settings_of

            settings_of([word], [])


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is here")
def test_without_ray_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "-m", *RUN, RATE, f"run_dir={tmp_path / 'p'}"]) == 2
    said = capsys.readouterr().err
    assert "Ray Tune" in said
    assert "reprl[ray]" in said
    assert not (tmp_path / "p").exists()


def test_cfg_shows_the_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "-m", *RUN, RATE, "seed=7", f"run_dir={tmp_path}", "--cfg"]) == 0
    said = capsys.readouterr().out
    assert "3 members" in said
    assert "member 2, seed 9: algo.learning_rate=" in said


def test_another_population_needs_another_folder(tmp_path: Path) -> None:
    one = plan([*RUN, RATE, f"run_dir={tmp_path}"], [])
    require_same(one, "2.60.0")
    require_same(one, "2.60.0")
    with refuses("population.json", "2.60.0", "2.61.0"):
        require_same(one, "2.61.0")
    with refuses("population.json", "space", "run_dir="):
        require_same(plan([*RUN, RATE, GAMMA, f"run_dir={tmp_path}"], []), "2.60.0")
    record = tmp_path / "population.json"
    record.write_text(record.read_text().replace('"version": 2', '"version": 1'))
    with refuses("population.json", "version 1", "version 2", "run_dir="):
        require_same(one, "2.60.0")  # it would train all of it anew
    record.write_text("nothing")
    with refuses("population.json", "cannot be read"):
        require_same(one, "2.60.0")


def test_numbers_are_drawn_by_their_logarithm_and_kept_in_their_interval() -> None:
    log = Interval(1e-6, 1e-2, log=True)
    assert drawn(log, 0.5) == pytest.approx(1e-4)
    assert drawn(Interval(1.0, 3.0), 0.5) == 2.0
    assert within(log, 1.0) == 1e-2
    assert within(log, 1e-9) == 1e-6
    assert within(Interval(1, 8, whole=True), 3.6) == 4


def row(number: int, member: int, score: float, **more: object) -> dict[str, object]:
    found = {"round": number, "member": member, "score": score, "step": 100 * number, "rate": 0.1}
    return found | {"copied_from": "", "seed": 0, "parent": "", "folder": "", "other": 1} | more


def test_a_lineage_is_kept_in_order_and_followed_back(tmp_path: Path) -> None:
    lineage = Lineage(tmp_path / "population.csv", ("rate",))
    lineage.add(row(1, 1, 5.0, folder="b1"))
    lineage.add(row(1, 0, 1.0, folder="a1"))
    lineage.add(row(2, 0, 7.0, folder="a2", parent="b1", copied_from=1, rate=0.12))
    lineage.add(row(2, 1, 6.0, folder="b2", parent="b1"))
    lineage.add(row(2, 1, 6.0, folder="b2", parent="b1"))  # a round that is decided again
    assert [(r["round"], r["member"]) for r in lineage.rows] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    text = lineage.file.read_text().splitlines()
    assert text[0] == "round,member,copied_from,seed,step,score,rate,parent,folder"
    assert text[3] == "2,0,1,0,200,7.0,0.12,b1,a2"
    best = lineage.best()
    assert best is not None
    assert best["folder"] == "a2"
    assert [r["folder"] for r in lineage.way(0)] == ["b1", "a2"]
    said = said_of(best, ("rate",), 2)
    assert said == "round 2/2 member 0: step 200, score 7  rate=0.12, copied from member 1"
    lineage.add(row(2, 0, float("-inf"), folder="a2", parent="b1"))  # it diverged
    best = lineage.best()
    assert best is not None
    assert best["folder"] == "b2"
    assert "score failed" in said_of(lineage.rows[2], ("rate",), 2)


NUMBERS = [
    *("device=cpu", "threads=1", "progress=off", "media=0", "env.n_envs=2"),
    *("log.every=64", "eval.episodes=1", "checkpoint.every=1000", "sweep=pbt", "sweep.members=2"),
]
POLE, PENDULUM = ("env=gymnasium", "env.id=CartPole-v1"), ("env=gymnasium", "env.id=Pendulum-v1")
OFF = ["algo.learning_starts=32", "algo.buffer_size=400", "algo.batch_size=8"]
Q = [*POLE, "algo=dqn", *OFF, "algo.exploration_fraction=0.8", "algo.target_update_interval=32"]
WARM = "{kind:linear,start:1e-3,end:0,warmup:0.2}"
SCHEDULED = {
    "schedules": [*POLE, f"algo.learning_rate={WARM}", "algo.n_steps=16", "algo.batch_size=16"],
    "epsilon and the beta of priorities": [*Q, "algo.prioritized=true"],
    "noise": [*PENDULUM, "algo=td3", *OFF, f"algo.noise_sigma={WARM}"],
}
PICTURES = [
    *("env=breakout", "env.size=36", "env.workers=0", "env.max_frames=400", "algo=imitation"),
    *("encoder.features_dim=16", "eval.variants=[original]", "algo.n_steps=16", "algo.updates=2"),
    *("algo.batch_size=16", "algo.buffer_size=400", "algo.beta.until=0.8"),
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [*SCHEDULED.values(), PICTURES], ids=[*SCHEDULED, "beta"])
def test_pieces_of_one_agent_are_what_one_run_is(settings: list[str], tmp_path: Path) -> None:
    """What is counted over a whole run does not begin anew with a piece."""
    words = [*NUMBERS, *settings, "total_steps=256", "sweep.interval=96", f"run_dir={tmp_path}"]
    made = plan([*words, "algo.gamma=0.9,0.99"], [])
    parent = None
    for number in range(1, made.rounds + 1):
        job = made.piece(0, number, {"algo.gamma": "0.9"}, seed=0, parent=parent)
        parent = tmp_path / f"piece_{number}"
        assert start(replace(job.config, run_dir=str(parent)), command=[], python_path=[]) == 0
    assert parent is not None
    whole = replace(job.config, run_dir=str(tmp_path / "whole"), parent=None, stop=Stop())
    assert start(whole, command=[], python_path=[]) == 0
    assert checkpoint.steps(parent)[-1] == 256
    one, two = (checkpoint.read(place, 256) for place in (parent, tmp_path / "whole"))
    assert one.parameters.keys() == two.parameters.keys()
    for name, tensor in two.parameters.items():
        assert one.parameters[name].equal(tensor), name
    for name, tensor in two.optimizer.items():
        assert one.optimizer[name].equal(tensor), name
    assert one.meta["counters"] == two.meta["counters"]


# of each key two values between which a checkpoint goes on
LIVE_VALUES: dict[str, tuple[Any, Any]] = {
    **dict.fromkeys(("learning_rate", "weight_decay", "rms_prop_eps"), (1e-4, 1e-3)),
    **dict.fromkeys(("gamma", "gae_lambda", "tau", "priority_beta"), (0.9, 0.5)),
    **dict.fromkeys(("ent_coef", "vf_coef", "actor_loss_coef", "advantage_coef"), (0.1, 0.2)),
    **dict.fromkeys(("order_coef", "beta_clone", "noise_sigma", "noise_least"), (0.1, 0.2)),
    **dict.fromkeys(("momentum", "clip_range_vf", "target_kl"), (None, 0.3)),
    **dict.fromkeys(("clip_range", "max_grad_norm", "target_policy_noise"), (0.1, 0.3)),
    **dict.fromkeys(("n_epochs", "updates", "auxiliary_epochs", "policy_delay"), (1, 2)),
    **dict.fromkeys(("batch_size", "auxiliary_batch_size"), (8, 16)),
    **dict.fromkeys(("normalize_advantage", "double"), (True, False)),
    **dict.fromkeys(("target_update_interval", "gradient_steps"), (1, 4)),
    **dict.fromkeys(("exploration_fraction", "exploration_initial_eps"), (0.5, 1.0)),
    **dict.fromkeys(("exploration_final_eps", "target_noise_clip"), (0.1, 0.2)),
    "sharpness": (1.0, 2.0),
    "target_entropy": ("auto", -2.0),
}
ON_POLICY = ("ppo", "ppg", "idaac", "recurrent_ppo", "a2c", "reinforce")
ALGORITHMS = {
    **{name: [*POLE, "algo.n_steps=8"] for name in ON_POLICY},
    **{name: [*POLE, *OFF] for name in ("dqn", "qrdqn")},
    **{name: [*PENDULUM, *OFF] for name in ("sac", "td3", "ddpg")},
    "imitation": PICTURES,
}


def test_every_key_that_may_change_is_tried() -> None:
    assert {*LIVE_VALUES} == {*LIVE}
    assert not {*LIVE} - algorithm_keys()


MEANT = {("momentum", None): 0.9, ("target_entropy", "auto"): -1.0}  # Adam's own, one action's
OPTIMIZERS = {"momentum": "adam", "rms_prop_eps": "rmsprop_tf"}  # which have it


def in_force(model: Any, key: str) -> list[Any]:
    """What an agent that has learned goes by, at each of the places where it is read."""
    groups = [group for each in model.optimizers().values() for group in each.param_groups]
    epsilon: Any = getattr(model, "exploration_schedule", None)
    at: dict[str, Callable[[], list[Any]]] = {
        "learning_rate": lambda: [group["lr"] for group in groups],
        # of the policy's parameters, which are the first group
        "weight_decay": lambda: [
            each.param_groups[0]["weight_decay"] for each in model.optimizers().values()
        ],
        "rms_prop_eps": lambda: [group["eps"] for group in groups],
        "momentum": lambda: [group["betas"][0] for group in groups],
        "exploration_initial_eps": lambda: [epsilon(1.0)],
        "exploration_final_eps": lambda: [epsilon(0.0)],
        # after which tenth of the run it is as small as at its end
        "exploration_fraction": lambda: [
            next(k / 10 for k in range(11) if epsilon(1 - k / 10) == pytest.approx(epsilon(0.0)))
        ],
        "noise_sigma": lambda: [noise._sigma[0] for noise in model.noise.noises],
        "gae_lambda": lambda: [model.rollout_buffer.gae_lambda],
        "gamma": lambda: [getattr(model, "rollout_buffer", model).gamma],
    }
    if key == "ent_coef" and hasattr(model, "ent_coef_tensor"):
        return [pytest.approx(model.ent_coef_tensor.item())]
    if key in at:
        return at[key]()
    found = getattr(model, {"normalize_advantage": "normalize_returns"}.get(key, key), None)
    found = getattr(model, key) if found is None else found
    return [found(1.0) if callable(found) else found]


@pytest.mark.slow
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_checkpoint_goes_on_with_another_value_of_each_live_key(algo: str) -> None:
    words = [word for word in NUMBERS if not word.startswith("sweep")]
    words += [f"algo={algo}", "total_steps=64"]
    words += [word.replace("learning_starts=32", "learning_starts=4") for word in ALGORITHMS[algo]]
    if algo in ("ppo", "ppg", "idaac", "recurrent_ppo"):
        words.append("algo.batch_size=8")
    if algo in ("sac", "td3", "ddpg"):
        words.append("algo.noise=normal")
    if algo == "ppg":
        words += ["algo.n_policy_phases=2", "algo.auxiliary_batch_size=8"]
    config = load(words)
    keys = [key for key in config.algo if key in LIVE_VALUES]
    assert "learning_rate" in keys
    for key in keys:
        if algo in ("a2c", "reinforce") and key in OPTIMIZERS:
            config = load([*words, f"algo.optimizer={OPTIMIZERS[key]}"])
        values = (0.1, 0.2) if (algo, key) == ("sac", "ent_coef") else LIVE_VALUES[key]
        with closing(make_env(config)) as env:
            first, second = (
                make_model(replace(config, algo={**config.algo, key: value}), env)
                for value in values
            )
            second.restore(first.capture())
            first.learn(4 * first.steps_per_update)
            second.restore(first.capture())
            second.learn(4 * second.steps_per_update, reset_num_timesteps=False)
            went_on = second.num_timesteps - first.num_timesteps
            assert went_on == 4 * second.steps_per_update
            for model, value in zip((first, second), values, strict=True):
                found = in_force(model, key)
                wanted = MEANT.get((key, value), value)
                assert found == [wanted] * len(found), f"{key}={value}"
