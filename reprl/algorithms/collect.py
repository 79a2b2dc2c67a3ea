"""The fast mode's rollout: SB3's steps and callbacks, with everything else done once a rollout."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from reprl.algorithms.compiled import Network
from reprl.algorithms.frame_buffer import FrameMemory

if TYPE_CHECKING:
    from reprl.algorithms.on_policy import Agent


def collect(
    agent: Agent, network: Network, env: VecEnv, callback: BaseCallback, memory: FrameMemory
) -> tuple[bool, float]:
    """Fill the memory; returns whether the callback let it finish, and the seconds in env.step."""
    assert isinstance(agent._last_obs, np.ndarray)
    agent.policy.set_training_mode(False)
    memory.reset()
    callback.on_rollout_start()
    all_values, all_log_probs, all_rewards, seconds = [], [], [], 0.0
    # What callbacks find under SB3's names, beside the local variables that share them.
    shared: dict[str, Any] = {
        "self": agent,
        "env": env,
        "callback": callback,
        "rollout_buffer": memory,
        "n_rollout_steps": memory.buffer_size,
    }
    for n_steps in range(memory.buffer_size):
        observations = agent._last_obs
        obs_tensor = torch.from_numpy(observations).to(agent.device)
        choices, values = network.act(obs_tensor)  # (n_envs, n_actions), (n_envs,)
        chosen = torch.multinomial(choices.exp(), 1)  # (n_envs, 1)
        log_probs = choices.gather(1, chosen).squeeze(1)  # (n_envs,)
        all_values.append(values)
        all_log_probs.append(log_probs)
        actions = chosen.squeeze(1).cpu().numpy()
        agent._phase = "collecting"
        began = perf_counter()
        new_obs, rewards, dones, infos = env.step(actions)
        seconds += perf_counter() - began
        all_rewards.append(np.array(rewards, np.float32))  # before anyone adds to them
        agent.num_timesteps += env.num_envs
        step = {"n_steps": n_steps, "obs_tensor": obs_tensor, "actions": actions}
        step |= {"clipped_actions": actions, "values": values[:, None], "log_probs": log_probs}
        step |= {"new_obs": new_obs, "rewards": rewards, "dones": dones, "infos": infos}
        shared |= step
        callback.update_locals(shared)
        if not callback.on_step():
            return False, seconds
        agent._update_info_buffer(infos, dones)
        for i in np.flatnonzero(dones):
            if infos[i].get("TimeLimit.truncated") and "terminal_observation" in infos[i]:
                # A time limit is not the game's end: what would have come counts.
                last = torch.from_numpy(infos[i]["terminal_observation"][None]).to(agent.device)
                with torch.no_grad():
                    rewards[i] += agent.gamma * agent.policy.predict_values(last).item()
        memory.record(observations, actions, rewards, agent._last_episode_starts)  # type: ignore[arg-type]
        agent._last_obs, agent._last_episode_starts = new_obs, dones  # type: ignore[assignment]
    memory.values[:] = torch.stack(all_values).cpu().numpy()
    memory.log_probs[:] = torch.stack(all_log_probs).cpu().numpy()
    _, last_values = network.act(torch.from_numpy(agent._last_obs).to(agent.device))
    memory.compute_returns_and_advantage(last_values, agent._last_episode_starts)  # type: ignore[arg-type]
    memory.finish(agent._last_obs, agent._last_episode_starts, np.stack(all_rewards))  # type: ignore[arg-type]
    callback.update_locals(shared | {"values": last_values[:, None]})
    callback.on_rollout_end()
    return True, seconds
