"""Every job of every shipped sweep names an agent that can be built."""

import pytest

from reprl.components import agent_specs
from reprl.config.compose import options
from reprl.sweeps import plan


@pytest.mark.parametrize("name", sorted(options("sweep")))
def test_every_job_of_a_shipped_sweep_is_an_agent(name):
    for job in plan.make([f"sweep={name}"], []).jobs:
        config = job.config
        agent_specs(
            encoder=config.encoder or None,
            attention=config.attention or None,
            auxiliary=config.auxiliary or None,
            augmentation=config.augmentation or None,
        )


def test_the_ablation_has_its_baseline_and_lends_views_only_where_a_loss_makes_them():
    jobs = plan.make(["sweep=ablation"], []).jobs
    assert {str(job.config.attention) for job in jobs} == {str(jobs[0].config.attention)}
    assert jobs[0].config.attention
    uses = {job.config.method: job.config.augmentation.get("use") for job in jobs}
    assert uses == {
        "ppo-nature-conv_21": None,
        "ppo-nature-conv_21-contrastive-gray_boxes": "views",
        "ppo-nature-conv_21-decoder": None,
        "ppo-nature-conv_21-sparsity": None,
        "ppo-nature-conv_21-attention_contrastive-gray_boxes": "views",
    }
