"""PPO as a single file would have it: EnvPool steps the games, one loop does the rest.

What a practitioner without a framework runs: stacked uint8 pictures straight from EnvPool, the
NatureCNN, generalised advantages, clipped updates over shuffled minibatches; no encoders, losses,
checkpoints or exact resume. `python -m benchmarks.envpool_loop JSON` prints its steps/s as JSON;
`benchmarks.train` measures it beside SB3 and reprl.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

GAMMA, LAMBDA, CLIP, ENTROPY, VALUE, NORM = 0.99, 0.95, 0.1, 0.01, 0.5, 0.5


def orthogonal(layer: nn.Module, gain: float = 2**0.5) -> nn.Module:
    nn.init.orthogonal_(layer.weight, gain)  # type: ignore[arg-type]
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer


class Network(nn.Module):
    """(B, 4, 84, 84) uint8 -> logits (B, actions) and values (B,)."""

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            orthogonal(nn.Conv2d(4, 32, 8, 4)),
            nn.ReLU(),
            orthogonal(nn.Conv2d(32, 64, 4, 2)),
            nn.ReLU(),
            orthogonal(nn.Conv2d(64, 64, 3, 1)),
            nn.ReLU(),
            nn.Flatten(),
            orthogonal(nn.Linear(3136, 512)),
            nn.ReLU(),
        )
        self.actor = orthogonal(nn.Linear(512, actions), 0.01)
        self.critic = orthogonal(nn.Linear(512, 1), 1.0)

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(pictures.float() / 255.0)
        return self.actor(features), self.critic(features).squeeze(1)


def make_env(n_envs: int, threads: int) -> Any:
    import envpool

    return envpool.make_gymnasium(
        "Breakout-v5",
        num_envs=n_envs,
        num_threads=threads,
        episodic_life=True,
        reward_clip=True,
        use_fire_reset=True,
    )


def advantages_of(rewards: Tensor, values: Tensor, ends: Tensor, last: Tensor) -> Tensor:
    """Generalised advantages (T, n); `ends` (T, n) says which steps ended their episode."""
    found = torch.zeros_like(rewards)
    running, following = torch.zeros_like(last), last
    for t in reversed(range(len(rewards))):
        alive = 1.0 - ends[t]
        delta = rewards[t] + GAMMA * following * alive - values[t]
        running = delta + GAMMA * LAMBDA * alive * running
        found[t], following = running, values[t]
    return found


class Loop:
    """Rollout and update of one learner."""

    def __init__(self, env: Any, n_envs: int, *, actions: int = 4, steps: int = 128) -> None:
        self.env, self.n_envs, self.steps = env, n_envs, steps
        self.network = Network(actions)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=2.5e-4, eps=1e-5)
        self.observation = torch.from_numpy(np.asarray(env.reset()[0]))

    def rollout(self) -> dict[str, Tensor]:
        shape = (self.steps, self.n_envs)
        kept = {name: torch.zeros(shape) for name in ("reward", "value", "log_prob", "end")}
        kept["action"] = torch.zeros(shape, dtype=torch.int64)
        kept["picture"] = torch.zeros((*shape, *self.observation.shape[1:]), dtype=torch.uint8)
        with torch.no_grad():
            for t in range(self.steps):
                logits, value = self.network(self.observation)
                chosen = Categorical(logits=logits)
                action = chosen.sample()
                kept["picture"][t], kept["action"][t] = self.observation, action
                kept["value"][t], kept["log_prob"][t] = value, chosen.log_prob(action)
                seen, reward, ended, cut, _ = self.env.step(action.numpy().astype(np.int32))
                kept["reward"][t] = torch.from_numpy(np.asarray(reward, np.float32))
                kept["end"][t] = torch.from_numpy((ended | cut).astype(np.float32))
                self.observation = torch.from_numpy(np.asarray(seen))
            last = self.network(self.observation)[1]
        kept["advantage"] = advantages_of(kept["reward"], kept["value"], kept["end"], last)
        kept["return"] = kept["advantage"] + kept["value"]
        return {name: values.flatten(0, 1) for name, values in kept.items()}

    def update(self, data: dict[str, Tensor], *, epochs: int = 4, size: int = 256) -> None:
        for _ in range(epochs):
            for rows in torch.randperm(len(data["action"])).split(size):
                logits, value = self.network(data["picture"][rows])
                chosen = Categorical(logits=logits)
                ratio = (chosen.log_prob(data["action"][rows]) - data["log_prob"][rows]).exp()
                advantage = data["advantage"][rows]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
                policy = -torch.min(ratio * advantage, clipped * advantage).mean()
                error = 0.5 * (value - data["return"][rows]).square().mean()
                loss = policy - ENTROPY * chosen.entropy().mean() + VALUE * error
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.network.parameters(), NORM)
                self.optimizer.step()


def measure(job: dict[str, Any]) -> dict[str, float]:
    """Steps/s after the warm-up updates."""
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    loop = Loop(make_env(8, job["threads"]), 8)
    began = time.perf_counter()
    for update in range(job["warmup"] + job["updates"]):
        if update == job["warmup"]:
            warm = time.perf_counter()
        loop.update(loop.rollout())
    seconds = time.perf_counter() - warm
    return {"rate": job["updates"] * 1024 / seconds, "warmup": warm - began}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
