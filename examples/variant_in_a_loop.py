"""Actor-critic in one file, on gymnasium's own Breakout behind a variant of reprl."""

import ale_py
import gymnasium as gym
import torch
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, RecordEpisodeStatistics
from torch import nn

from reprl.envs import VariantWrapper

gym.register_envs(ale_py)


def make_env(variant: str) -> gym.Env:
    env = gym.make("ALE/Breakout-v5", frameskip=1)
    env = VariantWrapper(env, variant, severity=0.5)  # the only line that is reprl's
    env = AtariPreprocessing(RecordEpisodeStatistics(env), terminal_on_life_loss=True)
    return FrameStackObservation(env, 4)


def main(variant: str = "diagonals", total_steps: int = 100_000, steps: int = 32) -> None:
    torch.manual_seed(0)
    envs = gym.vector.SyncVectorEnv([lambda: make_env(variant) for _ in range(4)])
    conv = nn.Sequential(nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU())
    body = nn.Sequential(conv, nn.Flatten(), nn.Linear(2592, 256), nn.ReLU())
    net = nn.Sequential(body, nn.Linear(256, envs.single_action_space.n + 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)
    obs, _ = envs.reset(seed=0)
    for step in range(0, total_steps, 4 * steps):
        log_probs, values, entropies, rewards, alive = [], [], [], [], []
        for _ in range(steps):
            out = net(torch.as_tensor(obs) / 255.0)  # (envs, actions + 1)
            policy = torch.distributions.Categorical(logits=out[:, :-1])
            action = policy.sample()
            obs, reward, terminated, truncated, info = envs.step(action.numpy())
            log_probs.append(policy.log_prob(action))
            values.append(out[:, -1])
            entropies.append(policy.entropy())
            rewards.append(torch.as_tensor(reward).sign())
            alive.append(1.0 - torch.as_tensor(terminated | truncated).float())
        returns = [net(torch.as_tensor(obs) / 255.0)[:, -1].detach()]
        for reward, going in zip(reversed(rewards), reversed(alive), strict=True):
            returns.insert(0, (reward + 0.99 * going * returns[0]).float())
        advantage = torch.stack(returns[:-1]) - torch.stack(values)
        policy_loss = -(torch.stack(log_probs) * advantage.detach()).mean()
        loss = policy_loss + 0.5 * advantage.pow(2).mean() - 0.01 * torch.stack(entropies).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ball = [seen.ball for seen in info["objects"]]  # the truth, for whoever needs it
        print(f"{variant} step {step + 4 * steps}: loss {loss.item():.3f}, balls {ball[:1]}")


if __name__ == "__main__":
    main()
