"""The algorithms, by the names that configurations and scripts use."""

from reprl.algorithms.a2c import A2C
from reprl.algorithms.apex import APEX
from reprl.algorithms.continuous import DDPG, SAC, TD3
from reprl.algorithms.distillation import Distillation
from reprl.algorithms.dqn import DQN
from reprl.algorithms.idaac import IDAAC
from reprl.algorithms.imitation import Imitation
from reprl.algorithms.impala import IMPALA
from reprl.algorithms.ppg import PPG
from reprl.algorithms.ppo import PPO
from reprl.algorithms.pretraining import Pretraining
from reprl.algorithms.qrdqn import QRDQN
from reprl.algorithms.recurrent_ppo import RecurrentPPO
from reprl.algorithms.reinforce import Reinforce
from reprl.algorithms.update import Diverged
from reprl.checkpoint.state import Captured, rebuild

__all__ = [
    "A2C",
    "APEX",
    "DDPG",
    "DQN",
    "IDAAC",
    "IMPALA",
    "PPG",
    "PPO",
    "QRDQN",
    "SAC",
    "TD3",
    "Captured",
    "Distillation",
    "Diverged",
    "Imitation",
    "Pretraining",
    "RecurrentPPO",
    "Reinforce",
    "rebuild",
]
