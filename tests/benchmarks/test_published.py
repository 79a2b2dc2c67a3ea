"""The published table is made of committed numbers: ratios of one round, medians over rounds."""

import json

import numpy as np
import torch

from benchmarks import published
from benchmarks.envpool_loop import GAMMA, LAMBDA, Loop, advantages_of

RECORD = {
    "machine": "2 cores.",
    "load": "Load 0.",
    "cores": 2,
    "date": "2026-01-01",
    "rates": {
        "sb3_ppo": [100.0, 200.0, 100.0],
        "ppo_1": [150.0, 300.0, 150.0],
        "ppo_n": [210.0, 480.0, 300.0],
    },
}


def test_ratios_are_of_the_same_round():
    assert published.ratio(RECORD, "ppo_n", "sb3_ppo") == 2.4  # of 2.1, 2.4 and 3.0
    assert published.ratio(RECORD, "envpool", "sb3_ppo") is None


def test_the_page_keeps_what_stands_around_its_table(tmp_path):
    page, results, plot = tmp_path / "page.md", tmp_path / "train.json", tmp_path / "plot.png"
    page.write_text(f"before\n{published.BEGIN}\nold\n{published.END}\nafter\n")
    results.write_text(json.dumps(RECORD))
    published.render(results, page, plot)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| PPO | reprl, 2 ranks | 300 | 210 to 480 | **2.40** | 2 |" in text
    assert "Not measured here: EnvPool loop" in text
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_the_page_has_its_marks():
    assert published.BEGIN in published.PAGE.read_text()
    assert published.END in published.PAGE.read_text()


def test_advantages_stop_at_the_end_of_an_episode():
    rewards, values = torch.tensor([[1.0], [2.0]]), torch.tensor([[0.5], [0.25]])
    last = torch.tensor([4.0])
    second = 2 + GAMMA * 4 - 0.25
    first = 1 + GAMMA * 0.25 - 0.5 + GAMMA * LAMBDA * second
    found = advantages_of(rewards, values, torch.zeros(2, 1), last)
    torch.testing.assert_close(found, torch.tensor([[first], [second]]))
    found = advantages_of(rewards, values, torch.tensor([[1.0], [0.0]]), last)
    assert found[0].item() == 0.5


class Pool:
    """What EnvPool gives, without games."""

    def reset(self):
        return np.full((2, 4, 84, 84), 99, np.uint8), {}

    def step(self, actions):
        assert actions.dtype == np.int32
        nothing = np.zeros(2, bool)
        return self.reset()[0], np.ones(2, np.float32), nothing, nothing, {}


def test_the_single_file_loop_learns_from_what_envpool_gives():
    torch.manual_seed(0)
    loop = Loop(Pool(), 2, steps=4)
    before = loop.network.critic.weight.clone()
    data = loop.rollout()
    assert data["picture"].shape == (8, 4, 84, 84)
    loop.update(data, epochs=1, size=4)
    assert not loop.network.critic.weight.equal(before)
