"""What every setting of ours allows, on one page and without torch.

`reprl/config/schema.py` refuses a wrong value here before anything heavy is imported, and the
constructor it is meant for reads the same line, so that a script and a run agree. Parts are found
by the class their `_target_` names inside reprl: the settings of a user's own class are its own
affair, whatever they are called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from reprl.errors import UserError
from reprl.validation import (
    Address,
    Flag,
    Number,
    Numbers,
    OneOf,
    Setting,
    Settings,
    Span,
    Window,
)

FRACTION = Number(0, 1)
COUNT = Number(1, whole=True)
COEFFICIENT = Number(0, usual=(0, 10), scheduled=True)
BEGIN = Number(0, whole=True)  # environment step from which a term counts
# a run's: numpy and SB3 take no larger one
SEED = Number(0, 2**31 - 1, whole=True)
# a game's: drawn from a named stream
GAME_SEED = Number(0, 2**63 - 1, whole=True)
STEPS = Number(1, whole=True)
EPISODES = Number(1, 100_000, whole=True, usual=(1, 100))
THREADS = Number(1, 256, whole=True)
RANKS = Number(1, 4096, whole=True)  # processes that train one agent together
MODES = ("plain", "fast")

# -- the environment: `env.*` and reprl.envs.make_vec_env --------------------------------------

# what a frame shows: the picture, or of the true objects their pixels, boxes, classes, a plane each
OBSERVATIONS = ("frames", "objects", "binary", "classes", "planes")
# of Procgen's levels: how hard, or what they ask for
DISTRIBUTIONS = ("easy", "hard", "extreme", "memory", "exploration")
# how the variants of `env.variant` follow each other in training, and what `env.stage` then is
CURRICULA = ("sequence", "random", "schedule", "success")
STAGE: dict[str, Setting] = {
    "sequence": Number(1, whole=True),  # steps of a stage
    "random": Number(1, whole=True),
    "schedule": Numbers(Number(1, whole=True), "[200_000, 500_000]"),  # where later stages begin
    "success": Number(),  # mean score of the last games
}
ENV: dict[str, Any] = {
    "severity": Number(0, 1, optional=True),
    "n_envs": Number(1, 4096, whole=True, usual=(4, 256)),
    "workers": Number(0, 256, whole=True),
    "sticky": Number(0, 0.99),  # at 1 no action would ever reach the game
    "stack": Number(1, 64, whole=True),
    "gap": Number(1, 64, whole=True),
    "size": Number(8, 512, whole=True, usual=(36, 210)),
    "noop_max": Number(0, 1000, whole=True),
    "max_frames": Number(200, 10**9, whole=True, usual=(10_000, 108_000)),
    "background": Number(0, 255, optional=True, open_low=True, usual=(0.1, 4), word="adaptive"),
    "observation": OneOf(OBSERVATIONS),
    "missed": FRACTION,
    "mislabelled": FRACTION,
    "shifted": Number(0, 40, whole=True, usual=(0, 8)),  # pixels of the console
    "gray": Flag(),
    "skip": Number(1, 60, whole=True, usual=(1, 8)),
    "levels": Number(0, 2**31 - 2, whole=True),
    "start_level": Number(0, 2**31 - 2, whole=True),
    "distribution": OneOf(DISTRIBUTIONS),
    "continuous": Flag(),
}
# of `reprl probe` and reprl.probe
PROBE: dict[str, Number] = {
    "frames": Number(100, 20_000, whole=True, usual=(600, 6000)),
    "games": Number(3, 256, whole=True),
    "every": Number(1, 1000, whole=True),
    "seed": GAME_SEED,
}
# looking at the same states in several pictures or worlds: `reprl layers`, `intervene`, `embed`
TWINS: dict[str, Number] = {
    "frames": Number(20, 20_000, whole=True, usual=(100, 4000)),
    "games": Number(1, 256, whole=True),
    "every": Number(1, 1000, whole=True),
    "seed": GAME_SEED,
    "neighbours": Number(1, 20, whole=True),
    "perplexity": Number(2, 200),
}
BREAKING: dict[str, Number] = {
    "frames": Number(8, 2000, whole=True),
    "tries": Number(2, 10_000, whole=True),
    "largest": Number(1, 6400, whole=True),  # cells of the 80x80 grid that drawings are made of
    "kept": FRACTION,
    "divergence": Number(0, 0.6931472),
    "episodes": EPISODES,
    "seed": GAME_SEED,
}
# of `reprl plasticity`
PLASTICITY: dict[str, Number] = {
    "frames": Number(16, 10_000, whole=True),
    "steps": Number(1, 100_000, whole=True, usual=(50, 5000)),
    "seed": GAME_SEED,
}
SEVERITY = FRACTION
SKILL = FRACTION
SCORE_SCALE = Number(0, open_low=True)  # of a game, in points
REWARD = Number(1e-6, 1e6)
REWARDS = ("clip", "raw")

# -- the parts, by class -----------------------------------------------------------------------

ON_POLICY: dict[str, Setting] = {
    "learning_rate": Number(0, 1, usual=(1e-6, 1e-2), scheduled=True),
    "weight_decay": Number(0, 1, usual=(0, 0.1)),
    "gamma": Number(0, 1, usual=(0.9, 0.9999)),
    "gae_lambda": Number(0, 1, usual=(0.8, 1)),
    "ent_coef": Number(0, 10, usual=(0, 0.1), scheduled=True),
    "vf_coef": Number(0, 100, usual=(0, 2), scheduled=True),
    "max_grad_norm": Number(0, usual=(0.05, 40), open_low=True),
    "n_steps": Number(1, 1_000_000, usual=(2, 4096), whole=True),
    "instrument_every": Number(0, 1_000_000_000, whole=True, optional=True),
    "optimizer": OneOf(("adam", "rmsprop", "rmsprop_tf"), optional=True),
    "seed": Number(0, 2**31 - 1, whole=True, optional=True),
    "stats_window_size": Number(1, 1_000_000, whole=True),
    "verbose": Number(0, 2, whole=True),
}
# of any intrinsic reward, the user's own included
INTRINSIC: dict[str, Setting] = {
    "coef": Number(0, usual=(0, 10)),
    "value_coef": Number(0, 100, usual=(0, 2)),
    "gamma": Number(0, 1, usual=(0.9, 0.9999)),
    "gae_lambda": Number(0, 1, usual=(0.8, 1)),
}
# keys of SB3's that say nothing here, and why; the first words of a sentence that ends with them
NOT_HERE = {
    "policy": "agents see pictures",
    "env": "environments are set with env.*",
    "seed": "it is set with seed=",
    "device": "it is set with device=",
    "mode": "it is set with mode=",
    "precision": "it is set with precision=",
    "intrinsic": "it is set with intrinsic=",
    "tensorboard_log": "a run writes tensorboard/ into its own folder",
    "use_sde": "its noise would not be in checkpoints",
    "sde_sample_freq": "its noise would not be in checkpoints",
    "use_sde_at_warmup": "its noise would not be in checkpoints",
    "action_noise": "it is set with algo.noise and algo.noise_sigma",
    "replay_buffer_class": "reprl brings its own memory",
    "replay_buffer_kwargs": "reprl brings its own memory",
    "optimize_memory_usage": "reprl brings its own memory",
    "rollout_buffer_class": "reprl brings its own memory",
    "rollout_buffer_kwargs": "reprl brings its own memory",
    "_init_setup_model": "a run needs its networks",
}
# keys of `algo` that may change while an agent trains: no network's shape and nothing that a
# checkpoint keeps depends on them, which a test tries of each
LIVE = (
    *("learning_rate", "gamma", "gae_lambda", "ent_coef", "vf_coef", "actor_loss_coef", "momentum"),
    *("max_grad_norm", "weight_decay", "rms_prop_eps", "clip_range", "clip_range_vf", "target_kl"),
    *("batch_size", "n_epochs", "normalize_advantage", "updates", "sharpness"),
    *("auxiliary_epochs", "auxiliary_batch_size", "beta_clone", "advantage_coef", "order_coef"),
    *("tau", "target_update_interval", "gradient_steps", "double", "priority_beta"),
    *("exploration_fraction", "exploration_initial_eps", "exploration_final_eps"),
    *("target_entropy", "policy_delay", "target_policy_noise", "target_noise_clip"),
    *("noise_sigma", "noise_least"),
)
# of those, the value with which an algorithm has other parts
SWITCHES: dict[str, Any] = {"order_coef": 0, "ent_coef": "auto"}
# keys of ours and of SB3's without a range; a test holds them to the constructors
_COMMON = ("compile", "policy_kwargs")
WITHOUT_RANGE: dict[str, tuple[str, ...]] = {
    "A2C": (*_COMMON, "use_rms_prop", "normalize_advantage"),
    "PPO": (*_COMMON, "normalize_advantage"),
    "Imitation": (*_COMMON, "expert", "beta"),
    "Distillation": (*_COMMON, "teacher", "beta"),
    "Pretraining": (*_COMMON, "data"),
    "Reinforce": (*_COMMON, "use_rms_prop", "baseline"),
    "PPG": (*_COMMON, "normalize_advantage"),
    "IDAAC": (*_COMMON, "normalize_advantage"),
    "DQN": ("policy_kwargs", "double", "dueling", "prioritized"),
    "QRDQN": ("policy_kwargs",),
    "SAC": ("policy_kwargs", "share_encoder"),
    "TD3": ("policy_kwargs", "share_encoder"),
    "DDPG": ("policy_kwargs", "share_encoder"),
    "RecurrentPPO": ("policy_kwargs", "normalize_advantage"),
    "IMPALA": ("policy_kwargs",),
    "APEX": ("policy_kwargs",),
}
ACTOR = Number(0, 100, usual=(0.01, 10), scheduled=True)  # weight of the policy's own loss
# Adam's first beta
MOMENTUM = Number(0, 1, open_high=True, usual=(0.5, 0.99), scheduled=True, optional=True)
BATCH = Number(2, 10_000_000, usual=(32, 32_768), whole=True)
EPOCHS = Number(1, 1000, usual=(1, 20), whole=True)  # passes over a rollout
# of PPO, with a memory and without
PROXIMAL: dict[str, Setting] = ON_POLICY | {
    "actor_loss_coef": ACTOR,
    "momentum": MOMENTUM,
    "batch_size": BATCH,
    "n_epochs": EPOCHS,
    "clip_range": Number(0, 1, usual=(0.02, 0.5), open_low=True, scheduled=True),
    "clip_range_vf": Number(0, 1e6, open_low=True, scheduled=True, optional=True),
    "target_kl": Number(0, 10, usual=(0.001, 0.5), open_low=True, optional=True),
}
RECORDED = Number(2, 2_000_000, whole=True, usual=(1000, 500_000))  # frames of a recording
# nested in algo=imitation: `expert` and `beta`
EXPERT: dict[str, Setting] = {
    "skill": SKILL,
    "temperature": Number(1e-3, 100),
    "steady": Flag(),
}
BETA: dict[str, Setting] = {"start": FRACTION, "end": FRACTION, "until": FRACTION}
OFF_POLICY: dict[str, Setting] = {
    **{name: ON_POLICY[name] for name in ("learning_rate", "gamma", "seed", "verbose")},
    **{name: ON_POLICY[name] for name in ("instrument_every", "stats_window_size")},
    "buffer_size": Number(1, 100_000_000, whole=True, usual=(1000, 1_000_000)),
    "learning_starts": Number(0, whole=True),
    "batch_size": BATCH,
    "train_freq": Number(1, 1_000_000, whole=True, usual=(1, 100)),
    # -1: as many as steps were played
    "gradient_steps": Number(-1, 1_000_000, whole=True, usual=(-1, 100)),
    "n_steps": Number(1, 1000, whole=True, usual=(1, 10)),
    "tau": Number(0, 1, open_low=True),
}
EXPLORATION: dict[str, Setting] = {
    "target_update_interval": COUNT,
    **{f"exploration_{name}": FRACTION for name in ("fraction", "initial_eps", "final_eps")},
}
CONTINUOUS: dict[str, Setting] = OFF_POLICY | {
    "noise": OneOf(("none", "normal", "ou")),
    "noise_sigma": Number(0, 10, usual=(0, 1), scheduled=True),
    "noise_goal": Numbers(Number(-1e6, 1e6), "[-1200, -200]", count=2, optional=True),
    "noise_least": FRACTION,
}
# of algorithms that RLlib trains
ON_RAY: dict[str, Setting] = {
    "learning_rate": Number(0, 1, usual=(1e-6, 1e-2)),
    **{name: ON_POLICY[name] for name in ("gamma", "seed", "stats_window_size", "verbose")},
    "runners": Number(1, 10_000, usual=(1, 512), whole=True),
    "address": Address(),
}
DROPOUT = Number(0, 1, open_high=True, usual=(0, 0.7))
GRAY_LEVELS = Number(0, 255, open_high=True)
ENCODER: dict[str, Setting] = {
    "features_dim": Number(1, 65_536, whole=True),
    "dropout": DROPOUT,
    "input": OneOf(("frames", "differences", "both")),
    "contrast": Window(),  # pixels
    "threshold": GRAY_LEVELS,
}
# of any encoder, the user's own included
FREEZE: dict[str, Setting] = {"freeze": Flag()}
INIT: dict[str, Setting] = {"init": OneOf(("sb3", "orthogonal", "he", "xavier"))}
ANY_ENCODER = FREEZE | INIT
LOADS = ("all", "policy", "encoder")  # what parent.load takes of a parent
# keys of `attention` that place any mask, the user's own included
PLACEMENT: dict[str, Setting] = {
    "where": OneOf(("features", "image")),
    "resolution": Number(1, whole=True, word="native"),
    "floor": Number(0, 1, open_high=True, optional=True),
}
HARD: dict[str, Setting] = {
    "by": OneOf(("top_k", "gumbel")),
    "keep": Number(0, 1, open_low=True),  # of top_k
    "temperature": Number(0, open_low=True),  # of gumbel
}
HARD_KINDS = {"keep": "top_k", "temperature": "gumbel"}  # settings that only one kind has
MASK_OPTIMIZER: dict[str, Setting] = {
    "learning_rate": Number(0, 1, open_low=True, optional=True),
    "betas": Numbers(Number(0, 1, open_high=True), "[0.9, 0.999]", count=2, optional=True),
}
OPENING = Number(0, 1, open_low=True, open_high=True)  # how open a mask begins
USE: dict[str, Setting] = {"use": OneOf(("rad", "views"))}  # of any augmentation
LOSS: dict[str, Setting] = {"coef": COEFFICIENT, "begin": BEGIN}
TAU = Number(0, 1, open_low=True)  # at 0 a momentum copy would never follow
MOMENTUM_PREDICTION = LOSS | {"latent": COUNT, "hidden": COUNT, "tau": TAU}
ANCHOR = OneOf(("view", "batch"))
NEGATIVES = OneOf(("all", "local"))
PROBABILITY: dict[str, Setting] = {"probability": FRACTION}
SIDES = Number(1, 10_000, whole=True)
CHANNELS = Number(1, 4, whole=True)  # of one frame: gray, or red, green and blue

CLASSES: dict[str, dict[str, Setting]] = {
    "A2C": ON_POLICY
    | {
        "rms_prop_eps": Number(0, 1, open_low=True),
        "actor_loss_coef": ACTOR,
        "momentum": MOMENTUM,
    },
    "PPO": PROXIMAL,
    "PPG": PROXIMAL
    | {
        "value_epochs": EPOCHS,
        "n_policy_phases": Number(1, 10_000, whole=True, usual=(1, 64)),
        "auxiliary_epochs": Number(0, 1000, whole=True, usual=(0, 20)),
        "auxiliary_batch_size": BATCH,
        "beta_clone": COEFFICIENT,
    },
    "IDAAC": PROXIMAL
    | {
        "value_epochs": EPOCHS,
        "value_every": Number(1, 10_000, whole=True, usual=(1, 64)),
        "advantage_coef": COEFFICIENT,
        "order_coef": COEFFICIENT,
        "order_hidden": Number(0, 65_536, whole=True),
    },
    "Reinforce": {name: setting for name, setting in ON_POLICY.items() if name != "gae_lambda"}
    | {
        "rms_prop_eps": Number(0, 1, open_low=True),
        "actor_loss_coef": ACTOR,
        "momentum": MOMENTUM,
        "normalize_advantage": Flag(optional=True),
    },
    "RecurrentPPO": PROXIMAL
    | {
        "memory": OneOf(("lstm", "gru")),
        "lstm_size": Number(1, 65_536, whole=True, usual=(16, 1024)),
        "lstm_layers": Number(1, 16, whole=True),
        "at_once": Flag(),
    },
    "IMPALA": ON_RAY
    | {
        **{name: ON_POLICY[name] for name in ("n_steps", "max_grad_norm")},
        "ent_coef": Number(0, 10, usual=(0, 0.1)),
        "vf_coef": Number(0, 100, usual=(0, 2)),
        "batch_size": BATCH,
        "rho_clip": Number(0, 1000, open_low=True, usual=(0.5, 10)),
        "pg_rho_clip": Number(0, 1000, open_low=True, usual=(0.5, 10)),
    },
    "APEX": ON_RAY
    | {
        **{name: OFF_POLICY[name] for name in ("buffer_size", "learning_starts", "batch_size")},
        **{name: OFF_POLICY[name] for name in ("train_freq", "n_steps", "tau")},
        "max_grad_norm": ON_POLICY["max_grad_norm"],
        "target_update_interval": COUNT,
        "epsilon": FRACTION,
        "epsilon_alpha": Number(0, 100, usual=(0, 10)),
        "exploration_final_eps": FRACTION,
        "priority_alpha": FRACTION,
        "priority_beta": FRACTION,
    },
    "SAC": CONTINUOUS
    | {
        "ent_coef": Number(0, 10, usual=(0, 1), word="auto"),
        "target_entropy": Number(-1000, 1000, word="auto"),
        "target_update_interval": COUNT,
    },
    "TD3": CONTINUOUS
    | {
        "policy_delay": Number(1, 1000, whole=True, usual=(1, 10)),
        "target_policy_noise": Number(0, 10, open_low=True, usual=(0, 1)),
        "target_noise_clip": Number(0, 10, usual=(0, 2)),
    },
    "DDPG": {name: s for name, s in CONTINUOUS.items() if name != "stats_window_size"},
    "DQN": OFF_POLICY
    | EXPLORATION
    | {
        "max_grad_norm": ON_POLICY["max_grad_norm"],
        "priority_alpha": FRACTION,
        "priority_beta": FRACTION,
    },
    "QRDQN": OFF_POLICY
    | EXPLORATION
    | {
        "max_grad_norm": Number(0, usual=(0.05, 40), open_low=True, optional=True),
        "n_quantiles": Number(1, 10_000, whole=True, usual=(10, 500)),
    },
    "Imitation": {name: setting for name, setting in ON_POLICY.items() if name != "ent_coef"}
    | {
        "updates": Number(1, 1_000_000, usual=(10, 1000), whole=True),
        "batch_size": BATCH,
        "buffer_size": Number(1, whole=True),
        "sharpness": Number(0.1, 100, usual=(1, 5)),
    },
    "Distillation": {name: setting for name, setting in ON_POLICY.items() if name != "ent_coef"}
    | {
        "temperature": Number(0.01, 100, usual=(0.1, 10)),
        "updates": Number(1, 1_000_000, usual=(10, 1000), whole=True),
        "batch_size": BATCH,
        "buffer_size": Number(1, whole=True),
        "sharpness": Number(0.1, 100, usual=(1, 5)),
    },
    "Pretraining": {
        **{name: ON_POLICY[name] for name in ("learning_rate", "weight_decay", "max_grad_norm")},
        **{name: ON_POLICY[name] for name in ("instrument_every", "optimizer", "seed", "verbose")},
        "updates": Number(1, 100_000, whole=True),
        "batch_size": BATCH,
        "frames": RECORDED,
    },
    "Nature": ENCODER,
    "NaturePadded": ENCODER,
    "Impala": ENCODER | {"width": Number(1 / 16)},  # of 16 channels at least one is left
    "XResNet": ENCODER
    | {
        "stages": Numbers(Number(1, 4096, whole=True), "[16, 32, 32]"),
        "blocks": Number(0, 64, whole=True),
        "separable": Flag(),
        "squeeze": Flag(),
        "self_attention": Flag(),
    },
    "Mlp": {
        "hidden": Numbers(Number(1, 65_536, whole=True), "[64, 64]"),
        "activation": OneOf(("tanh", "relu", "silu")),
    },
    "ConvMask": {"hidden": Numbers(COUNT, "[64]"), "opening": replace(OPENING, optional=True)},
    "MotionMask": {
        "opening": OPENING,
        "sensitivity": Number(0, open_low=True),
        "decay": Number(0, 1, open_low=True),
        "threshold": GRAY_LEVELS,
    },
    "MlpMask": {"hidden": COUNT},
    "SelfAttentionMask": {"width": COUNT},
    "SoftplusMask": {"width": COUNT},
    "Contrastive": LOSS | {"feature": COUNT, "tau": TAU, "anchor": ANCHOR, "negatives": NEGATIVES},
    "TemporalContrastive": LOSS
    | {"offset": COUNT, "latent": COUNT, "hidden": COUNT, "tau": TAU, "anchor": ANCHOR}
    | {"negatives": NEGATIVES},
    "SpatioTemporal": LOSS | {"offset": COUNT, "negatives": NEGATIVES},
    "DrAC": LOSS,
    "UcbDrAC": LOSS
    | {"exploration": Number(0, usual=(0, 10)), "window": Number(1, 10_000, whole=True)},
    "Svea": LOSS,
    "Soda": MOMENTUM_PREDICTION,
    "Sparsity": LOSS,
    "MaskEntropy": LOSS | {"of": OneOf(("cells", "map"))},
    "TotalVariation": LOSS,
    "SaliencyGuided": LOSS
    | {"attribution_coef": COEFFICIENT, "rho": FRACTION, "of": OneOf(("value", "action"))}
    | {"shrink": COUNT},
    "MotionTarget": LOSS
    | {
        "positive": Number(1),
        "threshold": GRAY_LEVELS,
        "memory": Number(0, 1000, whole=True),
        "decay": FRACTION,
        "newest": Flag(),
    },
    "ObjectTarget": LOSS | {"positive": Number(1)},
    "SelfPrediction": LOSS | {"steps": Number(1, 100, whole=True), "latent": COUNT, "tau": TAU},
    "InverseDynamics": LOSS | {"hidden": COUNT},
    "Byol": MOMENTUM_PREDICTION,
    "VariationalAutoencoder": LOSS | {"kl_coef": COEFFICIENT, "latent": COUNT, "shrink": COUNT},
    "Regularization": LOSS,
    "Reconstruction": LOSS | {"shrink": COUNT},
    "ValuePrediction": LOSS | {"hidden": COUNT},
    "RewardPrediction": LOSS | {"hidden": COUNT},
    "Decoder": LOSS
    | {
        "target": OneOf(("value", "policy", "features", "pixels")),
        "view": OneOf(("map", "image")),
        "hidden": COUNT,
        "shrink": COUNT,
    },
    "Representation": {
        # from 1 on the contrastive loss did not converge, from 1e-4 on training crawled
        "repr_coef": Number(0, usual=(0, 0.5), scheduled=True),
        "regularize_coef": Number(0, usual=(0, 5e-5), scheduled=True),
        **dict.fromkeys(("contra_coef", "encoder_coef", "decoder_coef", "recon_coef"), COEFFICIENT),
        "begin_repr": BEGIN,
    },
    "RND": INTRINSIC
    | {
        "width": Number(1, 65_536, whole=True, usual=(16, 1024)),
        "share": Number(0, 1, open_low=True),
    },
    "Nearness": {
        "axis": OneOf(("x", "y")),
        "coef": Number(0, usual=(0, 10)),
        "gamma": Number(0, 1, usual=(0.9, 0.9999), optional=True),
    },
    "Survival": {"alive": Number(usual=(0, 1)), "lost": Number(usual=(-10, 0))},
    "Shift": PROBABILITY | {"pixels": SIDES, "fill": OneOf(("edge", "black"))},
    # below a tenth nothing of the game is left; above 1 there is nothing to cut
    "CropResize": PROBABILITY | {"scale": Span(Number(0.1, 1))},
    "Flip": PROBABILITY,
    "Cutout": PROBABILITY
    | {
        "boxes": Span(Number(0, 1000, whole=True)),
        "sides": Span(SIDES),
        "fill": OneOf(("black", "gray")),
        "speed": Number(0, 1000),
        "channels": CHANNELS,
    },
    "Lines": PROBABILITY
    | {
        "lines": Span(Number(0, 1000, whole=True)),
        "lengths": Span(SIDES),
        "widths": Span(SIDES),
        "direction": OneOf(("straight", "diagonal", "both", "any")),
    },
    "Intensity": PROBABILITY | {"strength": Number(0, 0.5)},
    "Noise": PROBABILITY | {"deviation": Number(0, 255)},
    "Speckle": PROBABILITY | {"black": Span(FRACTION), "white": Span(FRACTION)},
    "Blur": PROBABILITY | {"sigma": Span(Number(0.01, 100))},
    "Rotate": PROBABILITY | {"degrees": Number(0, 180), "fill": OneOf(("edge", "black"))},
    # from 1 on corners could meet, and the picture would fold over
    "Perspective": PROBABILITY | {"distortion": Number(0, 0.9), "fill": OneOf(("edge", "black"))},
    "RandomConvolution": PROBABILITY
    | {"size": Number(1, 99, whole=True), "mix": Span(FRACTION), "channels": CHANNELS},
    "Texture": PROBABILITY
    | {
        "strength": Span(FRACTION),
        "kind": OneOf(("any", "plasma", "stripes", "checks", "blobs", "grain")),
    },
    "Sharpness": PROBABILITY | {"factor": Span(Number(0, 100))},
    "Equalize": PROBABILITY | {"strength": Span(FRACTION)},
    "ColorJitter": PROBABILITY
    | dict.fromkeys(("brightness", "contrast", "saturation"), FRACTION)
    | {"hue": Number(0, 0.5)},
    "ModuleAugmentation": {"channels": CHANNELS},
}


# what a group has, whatever its `_target_`, and what is nested in it
GROUPS: dict[str, dict[str, Setting]] = {
    "encoder": ANY_ENCODER,
    "attention": PLACEMENT,
    "attention.hard": HARD,
    "attention.optimizer": MASK_OPTIMIZER,
    "augmentation": USE,
    "intrinsic": INTRINSIC,
    "algo.expert": EXPERT,
    "algo.beta": BETA,
}


def check_hard(spec: Any) -> None:
    """Refuse a setting of `attention.hard` that belongs to the other kind."""
    if not isinstance(spec, Mapping):
        return
    for key, kind in HARD_KINDS.items():
        if key in spec and spec.get("by") in HARD_KINDS.values() and spec["by"] != kind:
            raise UserError(
                f"attention.hard.{key}={spec[key]} belongs to by: {kind} and would change nothing "
                f"with by: {spec['by']}: write attention.hard={{by:{spec['by']}}}."
            )


def check_noise_goal(goal: Any, noise: Any) -> None:
    """Refuse a goal of noise that is not there, or that would grow as the goal nears."""
    if goal is None:
        return
    if noise in (None, "none"):
        raise UserError(f"algo.noise_goal={list(goal)} needs noise: algo.noise=normal or ou.")
    if goal[0] >= goal[1]:
        raise UserError(
            f"algo.noise_goal={list(goal)} must be two scores, the lower one first: where the "
            "noise is whole, and where the goal is reached."
        )


def settings_of(group: str, target: Any) -> Settings:
    """The settings of ours in a group's spec, by the `_target_` it names."""
    words = re.split(r"[.:]", str(target or ""))
    own = CLASSES.get(words[-1], {}) if words[0] == "reprl" else {}
    return GROUPS.get(group, {}) | own


def algorithm_keys() -> frozenset[str]:
    """Every key that an algorithm of ours has."""
    found = (key for name, keys in WITHOUT_RANGE.items() for key in (*CLASSES[name], *keys))
    return frozenset(found) | {"_target_"}


def declared(
    group: str, key: str, spec: Any
) -> Iterator[tuple[str, dict[str, Any] | list[Any], Any, Setting | None]]:
    """Every value of a part's spec, nested specs included: its key, its holder, its name there.

    Last comes what it allows, None where that is not for us to say.
    """
    target = spec.get("_target_") if isinstance(spec, dict) else None
    known = settings_of(group, target)
    for name in list(spec) if isinstance(spec, dict) else range(len(spec)):
        setting, value = known.get(str(name)), spec[name]
        yield f"{key}.{name}", spec, name, setting
        if setting is None and isinstance(value, dict | list):
            # an encoder of ours places its mask; whatever a user's own class nests is its own
            inner = "attention" if (group, name) == ("encoder", "attention") else f"{group}.{name}"
            # freeze and init are for every encoder, and say nothing of what a user's own nests
            nests = inner if known.keys() - ANY_ENCODER.keys() else ""
            yield from declared(nests, f"{key}.{name}", value)
