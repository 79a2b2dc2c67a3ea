"""From a command line to jobs: expansion, identity, settings and every way to get it wrong."""

import pytest

from reprl.errors import UserError
from reprl.sweeps import plan


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


@pytest.mark.parametrize("name", ["ablation", "coefficients", "encoders", "augmentations", "seeds"])
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
        (["hydra/launcher=ray"], "on this machine only"),
        (["algo.gamma=0.9,1.5"], "algo.gamma=1.5"),
    ],
)
def test_bad_sweeps_are_one_sentence(overrides, sentence):
    with pytest.raises(UserError, match=sentence):
        make(*overrides)
