"""From a command line to jobs: expansion, identity, settings and every way to get it wrong."""

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from reprl.analysis.naming import method_name
from reprl.compose import options
from reprl.errors import UserError
from reprl.sweeps import plan
from reprl.sweeps.process import quoted


def make(*overrides):
    return plan.make(list(overrides), [])


def test_a_product_of_values_becomes_jobs_with_one_thread_each():
    made = make("seed=0,1", "encoder=nature,impala", "run_dir=somewhere")
    assert [(j.config.choices["encoder"], j.config.seed) for j in made.jobs] == [
        ("nature", 0),
        ("impala", 0),
        ("nature", 1),
        ("impala", 1),
    ]
    assert {(j.config.threads, j.config.env.workers) for j in made.jobs} == {(1, 0)}
    assert len({j.identity for j in made.jobs}) == 4
    assert str(made.folder) == "somewhere"


def test_what_the_user_says_wins_over_defaults_and_files():
    made = make("sweep=seeds", "seed=7,8", "threads=2")
    assert [j.config.seed for j in made.jobs] == [7, 8]
    assert {j.config.threads for j in made.jobs} == {2}


def test_identity_is_what_is_computed_not_where_or_how_it_is_shown():
    first = make("seed=3", "run_dir=a", "wandb=offline").jobs[0]
    assert first.identity == make("seed=3", "run_dir=b", "progress=off").jobs[0].identity
    assert first.identity != make("seed=3", "algo.gamma=0.98").jobs[0].identity


def test_the_first_comparison_is_six_methods_told_apart_seed_by_seed():
    made = make("sweep=methods")
    seeds = [j.config.seed for j in made.jobs]
    assert seeds == [1] * 6 + [2] * 6 + [3] * 6  # stopped early, it has whole comparisons
    names = [method_name(j.config.plain()) for j in made.jobs]
    assert names[:6] == names[6:12] == names[12:]
    assert len(set(names)) == len({j.config.method for j in made.jobs}) == 6
    plain, rad, drac, _, decoder, _ = (j.config for j in made.jobs[:6])
    assert (plain.total_steps, plain.mode, plain.env.n_envs) == (500_000, "fast", 8)
    assert {j.config.algo["learning_rate"] for j in made.jobs} == {2.5e-4}
    assert (plain.attention, plain.auxiliary, plain.augmentation) == ({}, {}, {})
    boxes = {"boxes": [0, 3], "sides": [1, 15], "fill": "gray"}  # what was measured before
    assert rad.augmentation.items() >= (boxes | {"use": "rad"}).items()
    assert drac.augmentation.items() >= (boxes | {"use": "views"}).items()
    assert set(decoder.auxiliary) == {"sparsity", "decoder"}


def test_a_key_of_the_file_keeps_its_place_whoever_sets_it():
    made = make("sweep=methods", "total_steps=1024", "seed=8,9")
    assert [j.config.seed for j in made.jobs] == [8] * 6 + [9] * 6
    assert {j.config.total_steps for j in made.jobs} == {1024}


@pytest.mark.parametrize("name", sorted(options("sweep")))
def test_every_sweep_file_expands(name):
    made = make(f"sweep={name}")
    assert len(made.jobs) == len({j.identity for j in made.jobs}) >= 5


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["seed=1,1"], "jobs 0 and 1 of the sweep are the same run"),
        (["sede=1,2"], "no key 'sede'.*Did you mean 'seed'"),
        (["sweep=ablations"], "sweep=ablations is unknown.*Did you mean 'ablation'"),
        (["sweep.job=2"], "no key 'sweep.job'.*Did you mean 'jobs'"),
        (["sweep.jobs=0"], "sweep.jobs=0 must be at least 1"),
        (["sweep.time_limit=-3"], "sweep.time_limit=-3"),
        (["sweep.retry=perhaps"], "sweep.retry=perhaps must be true or false"),
        (["algo.gamma=0.9,1.5"], "algo.gamma=1.5"),
    ],
)
def test_bad_sweeps_are_one_sentence(overrides, sentence):
    with pytest.raises(UserError, match=sentence):
        make(*overrides)


@pytest.mark.parametrize("folder", ["runs/a,b", "runs/it's", "runs/a=b {c}", "runs/back\\slash\\"])
def test_any_folder_name_reaches_a_job_as_it_is(folder: str) -> None:
    parsed = OverridesParser.create().parse_override(f"run_dir={quoted(Path(folder))}")
    assert parsed.value() == folder
