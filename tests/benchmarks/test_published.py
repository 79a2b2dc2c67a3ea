"""The published table is made of committed numbers: ratios of one round, medians over rounds."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
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
    assert "Not measured here: PPO EnvPool loop" in text
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_games_alone_start_memory_and_the_cost_of_many_environments_are_said():
    rates = RECORD["rates"] | {"games_envpool": [2000.0], "games_n": [3000.0]}
    record = RECORD | {"rates": rates, "bf16": False, "minutes": 12.5}
    record |= {"sizes": {"256": 2500.0, "8": 2000.0}}
    record |= {"seen": {"line": [3.0, 1.5], "update": [30.0, 7.0], "memory": [510.0, 540.0]}}
    text = published.text_of(record)
    assert "environments, variants drawn | 3,000 | 3,000 to 3,000 | **1.50** | 1 |" in text
    assert "500 µs with 8, 400 µs with 256 environments (0.80 times from 8 to 256)" in text
    # the first round fills the cache of compiled code
    assert "1.5 s to its first line (aim 2), 7.0 s to its first update" in text
    assert "540 MB in a rank" in text
    assert "bf16 was not measured: this CPU has no instructions" in text
    assert "ranks, bf16" not in text
    assert "12.5 minutes" in text


def test_a_training_is_watched_for_its_first_line_its_first_row_and_its_memory(tmp_path):
    metrics = tmp_path / "metrics.csv"
    script = (
        "import sys, time; print('on 2 cores', flush=True); time.sleep(0.3);"
        f"open({str(metrics)!r}, 'w').write('step,time/elapsed\\n1,2\\n'); time.sleep(0.3);"
        "print('memory: 1,234 MB at most')"
    )
    found = published.watch([sys.executable, "-c", script], metrics)
    assert found.memory == 1234
    assert found.rows["step"].tolist() == [1]
    assert 0 < found.line < found.update
    with pytest.raises(SystemExit, match="failed"):
        published.watch([sys.executable, "-c", "raise SystemExit(3)"], metrics)


def test_a_rate_is_that_of_the_rows_after_the_warm_up(monkeypatch):
    commands = []

    def watch(command, metrics):
        commands.append(command)
        rows = pd.DataFrame({"step": [1024, 2048, 3072], "time/elapsed": [50.0, 52.0, 54.0]})
        return published.Watched(line=1.0, memory=500.0, rows=rows)

    monkeypatch.setattr(published, "watch", watch)
    bench = published.Bench(2, published.Size(ppo=(1, 2)))
    assert bench.ours("ppo", 2, []) == 512.0
    assert bench.ours("ppo", 2, ["precision=bf16"]) == 512.0
    assert bench.seen == {"line": [1.0], "update": [], "memory": [500.0]}  # of fp32 with all ranks
    assert {"ranks=2", "total_steps=3072", "env.n_envs=8"} <= set(commands[0])
    assert "precision=bf16" in commands[1]
    bench.ours("ppo", 1, [])
    assert {"ranks=1", "env.workers=auto"} <= set(commands[2])


def test_every_contender_has_its_row(monkeypatch):
    monkeypatch.setattr(published, "cpu_has_bf16", lambda: True)
    monkeypatch.setattr(published.Bench, "sb3", lambda self, algo: lambda: 1.0)
    monkeypatch.setattr(published, "find_spec", lambda name: object())
    found = published.Bench(2, published.QUICK).contenders()
    assert list(found) == [*published.ROWS, *published.GAMES]


@pytest.mark.slow  # two processes with emulators
def test_environments_in_processes_that_do_not_wait_are_counted_together():
    from benchmarks.envs import together

    assert together(3, 2, 0.2, ("original", "green_lines")) > 0


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


def test_more_rounds_join_those_that_are_kept_on_the_same_machine_only(tmp_path, monkeypatch):
    results, page = tmp_path / "train.json", tmp_path / "page.md"
    page.write_text(f"{published.BEGIN}\n{published.END}\n")
    for name, value in {"RESULTS": results, "PAGE": page, "PLOT": tmp_path / "plot.png"}.items():
        monkeypatch.setattr(published, name, value)
    seen = {"line": [1.0], "update": [9.0], "memory": [500.0]}
    kept = RECORD | {"machine": published.machine(), "seen": seen, "sb3": {"ppo": [1, 2]}}
    results.write_text(json.dumps(kept | {"sizes": {"8": 2000.0}, "minutes": 12.0}))
    rates = {"sb3_ppo": 50.0, "ppo_1": 60.0, "ppo_n": 500.0, "a2c_n": 1.0}

    def contenders(bench):
        assert bench.chosen == {"ppo": [1, 2]}  # SB3 is not screened again
        return {name: lambda rate=rate: rate for name, rate in rates.items()}

    monkeypatch.setattr(published.Bench, "contenders", contenders)
    published.publish(2, more=True)
    record = json.loads(results.read_text())
    assert record["rates"]["ppo_n"] == [210.0, 480.0, 300.0, 500.0, 500.0]
    assert "a2c_n" not in record["rates"]  # it has no earlier rounds
    assert record["sizes"] == {"8": 2000.0}
    assert record["minutes"] >= 12.0
    assert "5 rounds in turn" in page.read_text()
    results.write_text(json.dumps(kept | {"machine": "64 cores."}))
    with pytest.raises(SystemExit, match="of another machine: 64 cores"):
        published.publish(2, more=True)


def test_the_pages_words_on_what_is_missed_are_of_the_published_rounds():
    rates = json.loads(published.RESULTS.read_text())["rates"]
    page = " ".join(published.PAGE.read_text().split())

    def rounds(name, other):
        return [f"{a / b:.2f}" for a, b in zip(rates[name], rates[other], strict=True)]

    one, two, three = rounds("ppo_n", "ppo_core")
    assert f"two ranks made {one}, {two} and {three} times one rank on one core" in page
    spread = sorted(rounds("a2c_n", "sb3_a2c"))
    assert f"spread from {spread[0]} to {spread[-1]} times SB3" in page
