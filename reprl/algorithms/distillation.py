"""Distillation: a trained agent labels the states that the learner visits; imitation of a network.

rollout (teacher's and learner's actions mixed) -> labels from the teacher's policy -> all data so
far -> the shared update with a cross-entropy. The learner's encoder, mask and losses are its own;
only what is observed and the actions must be the teacher's.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from reprl.algorithms.base import Algorithm
from reprl.algorithms.demonstrations import plain_bytes
from reprl.algorithms.imitation import Imitation
from reprl.envs.machine import OBSERVED
from reprl.errors import UserError
from reprl.policy import State, player_of, sample_actions
from reprl.rng import numpy_stream
from reprl.runs.places import teacher_folder
from reprl.settings import CLASSES
from reprl.validation import checker


class Teacher:
    """A trained agent at the side of a learner: it judges every state, and plays its share."""

    def __init__(self, folder: Path, n_envs: int, seed: int, *, temperature: float) -> None:
        self.folder, self.n_envs, self.temperature = folder, n_envs, temperature
        self._rng = numpy_stream(seed, "distillation", "mixture")
        self.open(None)

    def open(self, step: int | None) -> None:
        """Load the teacher at a step of its training, or at its newest."""
        from reprl import checkpoint  # which builds algorithms, this one among them

        self.model = checkpoint.load(self.folder, step=step)
        self.step = int(self.model.num_timesteps)
        self.player = player_of(self.model)
        self.memory: State = self.player.initial_state(self.n_envs)

    @property
    def identity(self) -> str:
        """A hash of what the teacher knows."""
        found = hashlib.sha256()
        for name, tensor in sorted(self.model.policy.state_dict().items()):
            found.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
        return found.hexdigest()[:16]

    def probabilities(self, observations: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """The labels (n, A): the teacher's probabilities to the power 1 / temperature."""
        outputs, self.memory = self.player.outputs(observations, self.memory, starts)
        powered = outputs.probs ** (1.0 / self.temperature)
        found: np.ndarray = powered / powered.sum(axis=1, keepdims=True)
        return found

    def mix(self, labels: np.ndarray, actions: np.ndarray, beta: float) -> np.ndarray:
        """The actions (n,) that are played: drawn from the labels with probability beta."""
        steps_in, uniforms = self._rng.random((2, len(actions)))
        return np.where(steps_in < beta, sample_actions(labels, uniforms), actions)

    def state(self) -> dict[str, np.ndarray]:
        record = {
            "rng": self._rng.bit_generator.state,
            "step": self.step,
            "identity": self.identity,
        }
        carried = {f"teacher.{i}": part.cpu().numpy() for i, part in enumerate(self.memory)}
        return {"teacher": plain_bytes(record)} | carried

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        record = json.loads(state["teacher"].tobytes())
        if record["step"] != self.step:  # it was trained on meanwhile
            self.open(int(record["step"]))
        if record["identity"] != self.identity:
            raise UserError(
                f"algo.teacher={self.folder} is not the agent that this run began with: put that "
                "one back, or begin anew."
            )
        self._rng.bit_generator.state = record["rng"]
        self.memory = tuple(
            torch.from_numpy(state[f"teacher.{i}"]).to(part.device).clone()
            for i, part in enumerate(self.memory)
        )


class Distillation(Imitation):
    """Learns what a trained agent would do, on the states that the learner itself visits."""

    settings_name: ClassVar[str | None] = "Distillation"
    expert: Teacher | None  # type: ignore[assignment]
    share = Algorithm.share  # refuses: the teacher's labels and memory belong to one process

    def __init__(
        self,
        policy: Any,
        env: Any,
        *args: Any,
        teacher: str | Path | None = None,
        temperature: float = 1.0,
        sharpness: float = 1.0,
        **kwargs: Any,
    ) -> None:
        self.teacher = None if teacher is None else str(teacher)
        self.temperature: float = checker(CLASSES["Distillation"])("temperature", temperature)
        super().__init__(policy, env, *args, sharpness=sharpness, **kwargs)

    def _require_truth(self) -> Any:
        """No truth is needed, but somebody who teaches."""
        return teacher_folder(self.teacher)

    def _expert(self) -> Any:
        folder = self._require_truth()
        made = Teacher(folder, self.n_envs, self._stream_seed, temperature=self.temperature)
        self._require_same_view(made.model)
        return made

    def _require_same_view(self, teacher: Any) -> None:
        """Refuse a teacher that could not see what the learner sees, or plays with other keys."""
        for name in ("observation_space", "action_space"):
            theirs, ours = getattr(teacher, name), getattr(self, name)
            if theirs != ours:
                raise UserError(f"algo.teacher={self.teacher} has {name} {theirs}, the run {ours}.")
        known = (teacher.run_config or {}).get("env")
        settings = getattr(self.env, "settings", None)
        if not isinstance(known, dict) or settings is None:
            return
        for name in OBSERVED:
            theirs, ours = known.get(name), getattr(settings, name)
            if name in known and theirs != ours:
                raise UserError(
                    f"algo.teacher={self.teacher} was trained with env.{name}={theirs}, and the "
                    f"run has env.{name}={ours}."
                )

    def _executed(self, actions: np.ndarray) -> np.ndarray:
        assert self.expert is not None
        assert isinstance(self._last_obs, np.ndarray)
        assert self._last_episode_starts is not None
        labels = self.expert.probabilities(self._last_obs, np.asarray(self._last_episode_starts))
        self._labels.append(labels)
        self._agreed.append(float((actions == labels.argmax(axis=1)).mean()))
        return self.expert.mix(labels, actions, self.beta(self._current_progress_remaining))

    def buffer_state(self) -> dict[str, np.ndarray]:
        known = {} if self.expert is None else self.expert.state()
        return self.rollout_buffer.state() | known

    def load_buffer_state(self, state: dict[str, np.ndarray]) -> None:
        self.rollout_buffer.load_state(state)
        if self.expert is not None:
            self.expert.load_state(state)
