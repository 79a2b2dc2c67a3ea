"""IMPALA (Espeholt et al. 2018) by RLlib: actors on a cluster, V-trace for what they lag behind.

fragments of `n_steps` from `runners` actors -> batches of `batch_size` steps -> RLlib's learner
with V-trace -> our actor-critic policy. The network is the one A2C has.
"""

from __future__ import annotations

from typing import Any, ClassVar

import stable_baselines3
from stable_baselines3.common.base_class import BaseAlgorithm

from reprl.algorithms.on_ray import OnRay
from reprl.settings import CLASSES
from reprl.validation import checker


class IMPALA(OnRay, stable_baselines3.A2C):
    """Asynchronous actor-critic; `rho_clip` and `pg_rho_clip` are V-trace's two thresholds."""

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.A2C
    loss_names: ClassVar[dict[str, str]] = {
        "policy_loss": "mean_pi_loss",
        "value_loss": "mean_vf_loss",
        "entropy": "entropy",
        "gradient_norm": "gradients_default_optimizer_global_norm",
    }

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        batch_size: int = 500,
        rho_clip: float = 1.0,
        pg_rho_clip: float = 1.0,
        **kwargs: Any,
    ) -> None:
        check = checker(CLASSES["IMPALA"])
        self.batch_size = int(check("batch_size", batch_size))
        self.rho_clip = float(check("rho_clip", rho_clip))
        self.pg_rho_clip = float(check("pg_rho_clip", pg_rho_clip))
        kwargs["use_rms_prop"] = False  # RLlib's learner has Adam
        super().__init__(policy, env, **kwargs)

    @property
    def _nominal(self) -> int:
        return self.batch_size

    def settings(self) -> dict[str, Any]:
        own = ("batch_size", "rho_clip", "pg_rho_clip")
        return super().settings() | {name: getattr(self, name) for name in own}

    def engine_config(self) -> Any:
        """RLlib's IMPALAConfig with our numbers."""
        from ray.rllib.algorithms.impala import IMPALAConfig

        return (
            IMPALAConfig()
            .env_runners(rollout_fragment_length=self.n_steps)
            .training(
                lr=float(self.learning_rate),  # type: ignore[arg-type]
                gamma=self.gamma,
                train_batch_size_per_learner=self.batch_size,
                entropy_coeff=self.ent_coef,
                vf_loss_coeff=self.vf_coef,
                grad_clip=self.max_grad_norm,
                grad_clip_by="global_norm",
                vtrace_clip_rho_threshold=self.rho_clip,
                vtrace_clip_pg_rho_threshold=self.pg_rho_clip,
            )
        )

    def engine_module(self) -> Any:
        """RLlib's module around our policy."""
        from reprl.algorithms.rllib_modules import ActorCriticModule

        return ActorCriticModule
