"""The catalogue of wrong input: every command says one sentence with the key, and leaves nothing.

A case is a command line and words that its sentence must hold. `{run}` is a finished run, the other
names in braces are folders and files made by `places`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprl import trust
from reprl.cli import main

GOLDEN = Path(__file__).parents[2] / "golden" / "v0_2_0" / "runs" / "ppo_plain_s0"
SECONDS = 5.0  # of processor time: a wrong value is not worth more

TRAIN = """
algo=dqm | algo=dqm is unknown | choose from
algo=null | algo
attention=top_k attention.hard.by=gumbel | attention.hard.keep=0.1 | by: top_k
attention=conv_21 attention.hard={{by:top_k,temperature:0.5}} | attention.hard.temperature=0.5
attention=conv_2 | attention=conv_2 is unknown | Did you mean
auxiliary=[contrastive,contrastiv] | contrastiv | Did you mean 'contrastive'?
augmentation=shft | augmentation=shft is unknown | Did you mean 'shift'?
env=pong | env=pong is unknown
stop.score=high | stop.score=high
profile=maybe | profile=maybe | true or false
profil=true | profil | Did you mean 'profile'?
stop.score=200 ranks=2 | stop.score=200 | ranks=1
stop.score=200 stop.games=101 | stop.games=101
stop.score=200 +algo.stats_window_size=10 | stop.score=200 | stop.games=100 | stats_window_size=10
algo=pretrain auxiliary=contrastive stop.score=9 | stop.score=9 | games
stop.step=0 | stop.step=0 | at least 1
stop.step=500 ranks=2 | stop.step=500 | ranks=1
algo.actor_loss_coef=-1 | algo.actor_loss_coef=-1
algo.momentum=1 | algo.momentum=1
encoder=xresnet encoder.stages=[0] | encoder.stages
encoder=xresnet encoder.squeeze=2 | encoder.squeeze=2
experiment=cartpole algo=a2c | algo.batch_size | experiment=cartpole sets it | '~algo.n_epochs'
experiment=cartpole algo=ppo +algo.lstm_size=8 | algo.lstm_size | Did you mean
algo=a2c algo.momentum=0.9 | algo.momentum | algo.optimizer=adam
+algo.intrinsic=rnd | algo.intrinsic=rnd | set with intrinsic=
algo=imitation +algo.actor_loss_coef=1 | algo.actor_loss_coef
algo=imitation env=gymnasium | algo=imitation | scripted agent | CartPole
experiment=imitation env=gymnasium | algo=imitation | scripted agent | CartPole
experiment=imitation env=procgen | algo=imitation | scripted agent | coinrun
algo=imitation env.game=boxing | algo=imitation | scripted agent | boxing
algo=imitation algo.beta={{start:1,kind:linear}} | algo.beta.kind | algo.beta.end
algo=imitation algo.beta={{start:2,until:0.5}} | algo.beta.start=2
algo.learning_rate={{kind:piecewise,points:[[0,1e-3],[0.5,1e-4]]}} | .points | rise from 0 to 1
algo.learning_rate={{kind:piecewise,points:3}} | algo.learning_rate.points=3
algo.learning_rate={{kind:piecewise,points:[[0,1e-3],[1,7]]}} | algo.learning_rate.points[1]=7
algo.learning_rate={{kind:one_cycle,start:1e-4}} | algo.learning_rate | peak
algo.learning_rate={{kind:one_cycle,start:1e-4,peak:2}} | algo.learning_rate.peak=2
algo.learning_rate={{kind:linear,start:1e-4,peak:1e-3}} | algo.learning_rate.peak | one_cycle
algo=reinforce algo.baseline=3 | algo.baseline=3
algo=reinforce mode=fast | algo=reinforce | mode=plain
algo=ppg ranks=2 threads=1 | ranks=2 | algo=ppg
algo=ppg algo.n_policy_phases=0 | algo.n_policy_phases=0
algo=ppg algo.beta_clone=-1 | algo.beta_clone=-1
algo=ppg algo.auxiliary_epoch=6 | algo.auxiliary_epoch | auxiliary_epochs
algo=ppg algo.auxiliary_batch_size=1e5 | algo.auxiliary_batch_size=100000 | n_policy_phases=32
algo=ppg algo.n_policy_phases=10000 algo.n_steps=100000 | n_policy_phases=10000 | GB
algo=idaac algo.order_coef=-1 | algo.order_coef=-1
algo=idaac algo.value_every=0 | algo.value_every=0
algo=idaac algo.beta_clone=1 | algo.beta_clone
env.continuous=true algo=idaac | algo=idaac | continuous actions
algo=recurrent_ppo auxiliary=saliency_guided | saliencyguided | one picture alone
algo=recurrent_ppo ranks=2 | ranks=2 | algo=recurrent_ppo
algo=recurrent_ppo mode=fast | algo=recurrent_ppo | mode=plain
algo=recurrent_ppo algo.lstm_size=0 | algo.lstm_size=0
algo=recurrent_ppo algo.memory=rnn | algo.memory=rnn | gru
algo=dqn algo.dueling=2 | algo.dueling=2
algo=dqn algo.prioritized=much | algo.prioritized=much
algo=dqn algo.priority_alpha=2 | algo.priority_alpha=2
algo=dqn algo.buffer_size=1e8 | algo.buffer_size=100000000 | GB
algo=qrdqn auxiliary=drac | drac | log_probs
algo=qrdqn algo.n_quantiles=0 | algo.n_quantiles=0
algo=qrdqn algo.double=true | algo.double
algo=dqn mode=fast | algo=dqn | mode=plain
algo=dqn algo.double=2 | algo.double=2
algo=dqn algo.buffer_size=0 | algo.buffer_size=0
algo=dqn algo.n_step=3 | algo.n_step | n_steps
algo=dqn ranks=2 | ranks=2 | algo=dqn
algo=impala ranks=2 | ranks=2 | algo=impala
algo=impala algo.runners=3 | env.n_envs=8 | algo.runners=3
algo=impala profile=true | profile=true | Ray
algo=impala env.workers=2 | env.workers=2 | algo.runners=2
algo=impala algo.address=here | algo.address=here | HOST:PORT
algo=apex auxiliary=contrastive | auxiliary=contrastive | algo=apex
algo=apex algo.epsilon=2 | algo.epsilon=2
algo=reinforce algo.gae_lambda=1 | gae_lambda
intrinsic=rdn | intrinsic=rdn is unknown | Did you mean 'rnd'?
intrinsic=rnd intrinsic.coef=-1 | intrinsic.coef=-1
intrinsic=rnd intrinsic.share=0 | intrinsic.share=0
intrinsic=rnd intrinsic.gama=1 | intrinsic.gama | gamma
intrinsic=rnd algo=dqn | intrinsic=rnd | algo=dqn | algo=ppo | recurrent_ppo
intrinsic=rnd algo=imitation | intrinsic=rnd | algo=imitation
intrinsic=rnd ranks=2 threads=1 | intrinsic=rnd | ranks=1
shaping=nearnes | shaping=nearnes is unknown | Did you mean 'nearness'?
shaping=nearness shaping.coef=-1 | shaping.coef=-1
shaping=nearness shaping.axis=z | shaping.axis=z | x, y
shaping=nearness shaping.of=padle | shaping.of=padle | 'paddle'
shaping=nearness shaping.gama=1 | shaping.gama | gamma
shaping=nearness env.game=seaquest | Nearness | seaquest
shaping=survival shaping.lost=much | shaping.lost=much
shaping={{_target_:nowhere.Own}} | nowhere
env=gymnasium env.id=CartPol-v1 | env.id=CartPol-v1 | Did you mean 'CartPole-v1'?
env=gymnasium env.id=3 | env.id=3
env=gymnasium env.workers=2 | env.workers=2 | env.workers=0
env=gymnasium env.id=Blackjack-v1 | Blackjack-v1 | observations
env=gymnasium env.id=Pendulum-v1 | Pendulum-v1 | continuous actions | algo=sac
env=gymnasium env.id=Pendulum-v1 algo=dqn | algo=dqn | continuous actions | algo=sac
env=gymnasium algo=sac | algo=sac | 2 discrete actions
algo=td3 | algo=td3 | env.continuous=true
env.continuous=true | algo=ppo | continuous actions | algo=sac
env.continuous=2 | env.continuous=2
env.continuous=true algo=sac auxiliary=spr | selfprediction | actions_at
env.continuous=true algo=sac algo.share_encoder=2 | algo.share_encoder=2
env.continuous=true algo=td3 augmentation=flip | mirrors | LEFT and RIGHT
env.continuous=true algo=sac mode=fast | algo=sac | mode=plain
env=gymnasium env.id=Pendulum-v1 algo=sac algo.noise=pink | algo.noise=pink | normal
env=gymnasium env.id=Pendulum-v1 algo=sac algo.noise_sigma=-1 | algo.noise_sigma=-1
env=gymnasium env.id=Pendulum-v1 algo=td3 algo.noise_goal=[-200] | algo.noise_goal | 2 numbers
env=gymnasium env.id=Pendulum-v1 algo=td3 algo.noise_goal=[50,5] | algo.noise_goal=[50, 5] | lower
env=gymnasium env.id=Pendulum-v1 algo=sac algo.noise_goal=[5,50] | noise_goal | algo.noise=normal
env=gymnasium env.id=Pendulum-v1 algo=sac total_steps=1000 | algo.learning_starts=1000 | below 1000
algo=dqn algo.learning_starts=500000 total_steps=1e5 | learning_starts=500000 | total_steps=100000
algo=apex total_steps=2000 | algo.learning_starts=5000 | total_steps=2000
env=gymnasium env.id=Pendulum-v1 algo=sac algo.ent_coef=automatic | algo.ent_coef=automatic | auto
env=gymnasium env.id=Pendulum-v1 algo=ddpg algo.policy_delay=2 | algo.policy_delay
env=gymnasium env.id=Pendulum-v1 algo=td3 +algo.action_noise=1 | algo.action_noise | algo.noise
env=gymnasium env.id=nowhere:Own-v0 | nowhere | cannot be imported
env=gymnasium env.stack=4 | env.stack
env=gymnasium env.n_envs=0 | env.n_envs=0
env=gymnasium attention=conv | attention=conv | numbers
env=gymnasium auxiliary=contrastive | auxiliary=contrastive | numbers
env=gymnasium augmentation=shift mode=fast | augmentation=shift and mode=fast | numbers
env=gymnasium encoder=nature | encoder=nature | numbers
env=gymnasium eval.variants=[green_lines] | 'green_lines' | only original
env=gymnasium encoder.activation=tan | encoder.activation=tan | 'tanh'
env=gymnasium encoder.hidden=64 | encoder.hidden
env=procgen env.game=coinrum | 'coinrum' | Did you mean 'coinrun'?
env=procgen env.levels=-1 | env.levels=-1
env=procgen env.start_level=2147483600 | env.start_level=2147483600 | env.levels=200
env=procgen env.distribution=eazy | env.distribution=eazy | 'easy'
env=procgen env.distribution=memory | env.distribution=memory | coinrun | exploration
env=procgen env.levels=0 | env.levels=0 | unseen
env=procgen env.stack=4 | env.stack
env=procgen env.variant=green_lines | 'green_lines' | only original and unseen
env=procgen augmentation=flip | augmentation=flip | procgen/coinrun
env=procgen attention=motion | attention=motion | one picture at a time
env=gymnasium env.id=MiniGrid-Empty-5x5-v0 encoder=nature attention=motion | one picture at a time
env.game=coinrun | 'coinrun' | env=procgen
env.game=procgen/coinrun | env.game=procgen/coinrun | env=procgen
env.levels=5 | env.levels
env.game=ALE/Pung-v5 | ALE/Pung-v5 | game
env.game=ocatari:Freeway | ocatari:Freeway | docs/games.md
env.game=pong env.variant=mode_4 | 'mode_4' cannot be played in game 'pong'
env.variant=drift_up | 'drift_up' cannot be played in game 'breakout'
env.variant=mode_3 | 'mode_3'
experiment=debgu | experiment=debgu is unknown | Did you mean 'debug'?
encoder=null | encoder
total_steps=[1] | total_steps
total_steps={{a:1}} | total_steps
total_steps=true | total_steps
total_steps=1e30 | total_steps
seed=1.5 | seed=1.5
seed=2147483648 | seed=2147483648
seed=abc | seed=abc
mode=quick | mode=quick is unknown
precision=fp16 | precision=fp16 is unknown
precision=16 | precision=16
precision=bf16 | precision=bf16 | mode=fast
device=cuda:99 | device=cuda:99
device=cuda ranks=2 | device=cuda | no CUDA device
device=7 | device=7
threads=1.5 | threads=1.5
threads=many | threads=many
ranks=0 | ranks=0
ranks=many | ranks=many
ranks=3 | env.n_envs=8 | ranks=3
ranks=16 | ranks=16 | env.n_envs=8
ranks=2 algo.batch_size=255 | algo.batch_size=255 | ranks=2 | 256
ranks=2 algo=distillation algo.teacher=agent:imitation | ranks=2 | algo=distillation
auxiliary=contrastive auxiliary.negatives=none | negatives=none
checkpoint.every=0 | checkpoint.every=0
checkpoint.every=1.5 | checkpoint.every=1.5
checkpoint.keep=0 | checkpoint.keep=0
checkpoint=5 | checkpoint
eval.every=-1 | eval.every=-1
eval.episodes=0 | eval.episodes=0
eval.variants=orignal | orignal | Did you mean 'original'?
eval.variants=[original@2] | original@2
eval=3 | eval
log.every=0 | log.every=0
media=-1 | media=-1
media=few | media=few
log.evry=5 | log.evry | Did you mean
algo.clip_range=-1 | algo.clip_range=-1
algo.gae_lambda=2 | algo.gae_lambda=2
algo.max_grad_norm=-1 | algo.max_grad_norm=-1
algo.target_kl=-1 | algo.target_kl=-1
'algo.learning_rate={{kind:cubic,start:1e-3,end:0}}' | algo.learning_rate | cubic
'algo.learning_rate={{kind:linear}}' | algo.learning_rate
'algo.learning_rate={{kind:linear,start:1e-3,end:0,warmup:2}}' | algo.learning_rate | warmup
encoder.features_dim=0 | encoder.features_dim=0
encoder.features_dim=1e9 | encoder.features_dim
encoder.input=colour | encoder.input | colour
encoder.inpt=frames | encoder.inpt | Did you mean
attention=conv attention.floor=2 | attention.floor=2
attention=conv attention.flor=0 | attention.flor | Did you mean
auxiliary=contrastive auxiliary.coef=-1 | auxiliary.coef=-1
auxiliary=contrastive auxiliary.cof=1 | auxiliary.cof | Did you mean
auxiliary=contrastive auxiliary.temporal.coef=1 | auxiliary.temporal
augmentation=shift augmentation.pixels=-1 | augmentation.pixels=-1
env.variant=green_lines@2 | green_lines@2
env.variant=green_lines@x | green_lines@x
env.variant=suite:nothing | nothing
env.severity=2 | env.severity=2
env.stack=0 | env.stack=0
env.gap=0 | env.gap=0
env.size=1000 | env.size=1000
env.noop_max=-1 | env.noop_max=-1
env.max_frames=10 | env.max_frames=10
env.reward=-1 | env.reward=-1
env.workers=-1 | env.workers=-1
env.n_envs=5000 | env.n_envs=5000
env.sticky=-1 | env.sticky=-1
env.observation=plane | env.observation=plane | 'planes'
env.observation=objects env.game=boxing | env.observation=objects | 'boxing'
env.missed=0.1 | env.missed=0.1 | env.observation=frames
env.observation=binary env.mislabelled=0.1 | env.mislabelled=0.1 | classes or planes
env.observation=binary env.gray=false | env.observation=binary | env.gray=true
env.gray=false env.background=1 | env.background=1 | env.gray=false
env.gray=3 | env.gray=3
env.skip=0 | env.skip=0
env.stage=1000 | env.stage=1000 | env.curriculum
env.curriculum=sequence env.stage=1000 | env.curriculum=sequence | env.variant
env.curriculum=sequenc env.stage=1000 | env.curriculum=sequenc | 'sequence'
env.curriculum=success env.variant=[original,noise] | env.curriculum=success | env.stage
env.curriculum=random env.variant=[original,noise] env.stage=0 | env.stage=0
env.curriculum=schedule env.variant=[original,noise] env.stage=[5,2] | env.stage | 1 growing
env.curriculum=sequence env.variant=[original,blur] env.stage=8 ranks=2 | env.curriculum | ranks=1
env.game=pong augmentation=flip | augmentation=flip | pong
run_dir={file} | is a file
run_dir={run} | already holds a run
parent={empty} | {empty} | checkpoint
parent={run}@999 | 999
parent={file} | {file}
hydra.run.dir={file} | {file} | is a file
hydra.sweeper.x=1 | hydra.sweeper.x | -m
hydra.jb.chdir=true | hydra.jb
--cfg=everything | --cfg=everything | job
--info=nothing | --info=nothing | plugins
--resolve | --cfg
-m --cfg job seed=1,2 | --cfg job | without -m
--config-name | --config-name
--config-name=mine | --config-name=mine | train
augmentation={{size:3}} | augmentation | _target_
parent.load=encoder | parent.load=encoder | parent=DIR
parent={run} parent.load=encodr | parent.load=encodr | Did you mean 'encoder'?
parent={run} parent.laod=encoder | parent.laod
encoder.freeze=maybe | encoder.freeze=maybe | true or false
encoder.freze=true | encoder.freze
parent={run} parent.load=encoder encoder.freeze=true env.stack=3 | parent.load=encoder | cnn.0
auxiliary=spr auxiliary.steps=0 | auxiliary.steps=0
auxiliary=spatiotemporal auxiliary.offset=0 | auxiliary.offset=0
auxiliary=vae auxiliary.kl_coef=-1 | auxiliary.kl_coef=-1
auxiliary=byol auxiliary.tau=0 | auxiliary.tau=0
auxiliary=saliency_guided auxiliary.attribution_coef=-1 | auxiliary.attribution_coef=-1
auxiliary=saliency_guided auxiliary.shrink=0 | auxiliary.shrink=0
auxiliary=ucb_drac auxiliary.options=[shift,shfit] | shfit | Did you mean 'shift'?
auxiliary=ucb_drac auxiliary.options=[shift] | options | two or more
auxiliary=ucb_drac auxiliary.window=0 | auxiliary.window=0
auxiliary=svea auxiliary.coef=-1 | auxiliary.coef=-1
auxiliary=soda auxiliary.tau=0 | auxiliary.tau=0
auxiliary=inverse_dynamic | auxiliary=inverse_dynamic is unknown | Did you mean 'inverse_dynamics'?
algo=distillation | algo.teacher=None | agent:NAME
algo=distillation algo.teacher=nowhere | no teacher 'nowhere'
algo=distillation algo.teacher=agent:nobody | nobody
algo=distillation algo.teacher={empty} | {empty} | checkpoint
algo=distillation algo.teacher={run} algo.temperature=0 | algo.temperature=0
algo=distillation algo.teacher={run} algo.n_epochs=2 | algo.n_epochs
algo=pretrain | auxiliary is none
=1 | =1
~seed | seed
~algo.target_kl | algo.target_kl | null
+algo.foo=3 | algo.foo
+algo.use_sde=true | algo.use_sde
=3 | =3
+encoder.frieze=true --cfg job | frieze
algo.learning_rate={{_target_:Steps}} | algo.learning_rate._target_=Steps | my_module
algo.learning_rate={{_target_:no_such_module.Steps}} | learning_rate | no_such_module
algo.learning_rate={{_target_:math.sqrt}} | math.sqrt
parent=missing.zip | missing.zip
algo.n_steps=1000000 | algo.n_steps=1000000 | memory
'auxiliary=[contrastive,none]' | auxiliary | none
+encoder.frieze=true --cfg | frieze
'callbacks={{x:3}}' | callbacks.x
'callbacks={{x:{{_target_:reprl.encoders.Nature}}}}' | callbacks | BaseCallback
++foo=1 | foo
seed=${{nothing}} | nothing
eval.variants.x=1 | eval.variants.x=1
'run_dir="' | run_dir
-x | no option '-x'
trust=1bad | trust=1bad
-m seed= | seed
-m 'seed=range(0)' | seed
-m seed=0,0 | same run
-m seed=a,b | seed=a
-m encoder=nature,natur | encoder=natur is unknown
-m total_steps=64,x | total_steps=x
-m seed=0,1 sweep.jobs=0 | sweep.jobs=0
-m seed=0,1 sweep.jobs=x | sweep.jobs=x
-m seed=0,1 sweep.job=1 | sweep.job | Did you mean
-m seed=0,1 sweep.time_limit=-1 | sweep.time_limit=-1
-m seed=0,1 sweep.retry=maybe | sweep.retry=maybe
-m seed=0,1 sweep=sedes | sedes | Did you mean 'seeds'?
-m seed=0,1 run_dir={file} | {file}
-m seed=0,1 hydra/launcher=moon | moon
-m 'seed=glob(x*)' | seed
-m 'seed=interval(0,1)' | interval | hydra/sweeper
-m seed=0,1 hydra/sweeper=moon | moon
-m sweep=tune | nothing to search | interval
-m sweep=tune seed=0,1 | 'seed=0,1'
-m sweep=tune attention=none,conf | attention=conf is unknown
-m sweep=tune attention=none,conv sweep.trials=0 | sweep.trials=0
-m sweep=tune attention=none,conv sweep.prune=maybe | sweep.prune=maybe
-m sweep=tune attention=none,conv eval.every=0 | eval.every=0
-m sweep=tune 'algo.gamma=interval(0.9,2)' | algo.gamma=2
-m sweep=tune attention=none,conv hydra/launcher=joblib | hydra/launcher=joblib
-m sweep=tune attention=none,conv seeds=until_decided | seeds=until_decided
-m seed=0,1 sweep.prune=true | sweep.prune=true | sweep=tune
-m seeds=until_decided seed=0,1 | seeds=until_decided | 'seed=0,1'
-m seeds=until_decided run_dir={empty} | claims.yaml | run_dir=
-m seeds=until_decided max_seeds=1 | max_seeds=1 | from 2 to 1000
-m seeds=until_decided max_seeds=2 experiment=plain,only_drac run_dir={claimed} | 3 seeds
-m seeds=until_decided run_dir={claimed} experiment=plain,rad_boxes | only_drac
-m seeds=decided | seeds=decided | until_decided
-m seed=0,1 max_seeds=5 | max_seeds=5 | seeds=until_decided
seeds=until_decided | seeds=until_decided | add -m
"""
OTHERS = """
resume | exactly one run folder, got 0
resume {run} {run} | exactly one run folder, got 2
resume nowhere | there is no folder 'nowhere'
resume {file} | is a file
resume {empty} | is not a run folder
resume {run} steps=5 | no key 'steps'
resume {run} ranks=0 | ranks=0
resume {run} ranks=two | ranks=two
doctor seconds=0 | seconds=0
doctor second=1 | Did you mean 'seconds'?
resume {run} --fast | no option '--fast'
resume {run} trust=1bad | trust=1bad
resume {run} --config-dir=nowhere | no folder 'nowhere'
resume {no_record} | run.json
resume {no_config} | config.yaml
resume {not_json} | run.json
resume {not_yaml} | config.yaml | line 3
resume {a_list} | config.yaml
resume {unknown_key} | config.yaml | encodr
resume {edited} | config.yaml was changed
resume {later} | format 99
verify | exactly one run folder
verify nowhere | 'nowhere'
verify {empty} | is not a run folder
verify {not_json} | run.json
verify {not_yaml} | config.yaml
verify {run} all=1 | no key 'all'
evaluate | at least one run folder
evaluate {empty} | {empty}
evaluate {run} {run} | {run} | given twice
extend {run} | total_steps
extend {run} total_steps=1 | total_steps=1 | {run}
extend {run} total_steps=x | total_steps=x
extend {empty} total_steps=9 | {empty}
extend nowhere total_steps=9 | nowhere
evaluate {run} episodes=0 | episodes=0
evaluate {run} episodes=x | episodes=x
evaluate {run} episodes=1.5 | episodes=1.5
evaluate {run} episodes=1 episodes=2 | episodes is given twice
evaluate {run} episods=2 | Did you mean 'episodes'?
evaluate {run} variants= | variants= is empty
evaluate {run} variants=green_line | Did you mean 'green_lines'?
evaluate {run} variants=green_lines@5 | green_lines@5
evaluate {run} variants=suite:nope | nope
evaluate {run} variants=os:system | os
evaluate {run} seed=-1 | seed=-1
evaluate {run} seed=1e3 | seed=1e3
evaluate {run} sticky=2 | sticky=2
evaluate {run} sticky=nan | sticky=nan
evaluate {run} games=all | games=all
evaluate {run} game=pong | game=pong | plays breakout
evaluate {run} env.game=Pung | game=Pung | plays breakout
evaluate {run} game= | game= is empty
attention {run} game=pong | game=pong | plays breakout
probe {run} game=pong | game=pong | plays breakout
play {run} game=pong | game=pong | plays breakout
video {run} game=pong | game=pong | plays breakout
evaluate {stock} game=pong | stock.zip | trust=true
evaluate {stock} game=Pung trust=true | 'Pung' | 'pong'
evaluate {stock} game=gymnasium/CartPole-v1 trust=true | game=gymnasium/CartPole-v1 | ALE
attention {stock} game=Pung trust=true | 'Pung' | 'pong'
video {stock} game=Pung trust=true | 'Pung' | 'pong'
play {stock} game=Pung trust=true | 'Pung' | 'pong'
evaluate {run} severities=2 | severities=2
evaluate {run} severities=x | severities=x
evaluate {run} deterministic=perhaps | deterministic=perhaps
evaluate {run} checkpoint=soon | checkpoint=soon
evaluate {run} checkpoint=99 | 99
evaluate {run} checkpoint=-1 | checkpoint=-1
evaluate {run} agents=expert | expert
evaluate {run} agents=scripted@2 | scripted@2
evaluate {run} agents=scripted:moon | moon
evaluate {run} twin=perhaps | twin=perhaps
evaluate {run} twin=true steps=0 | steps=0
evaluate {run} n_envs=0 | n_envs=0
evaluate {run} workers=-1 | workers=-1
evaluate {run} threads=0 | threads=0
evaluate {run} progress=live | progress=live
evaluate {not_json} | run.json
evaluate {no_checkpoints} | checkpoint
evaluate {later} agents=none progress=off | format 99
attention | exactly one run folder
probe {empty} | {empty}
probe {run} variants=nope | nope
probe {run} player=me | me
probe {run} frames=0 | frames=0
probe agent:nobody | nobody
probe | at least one run folder
probe {run} {empty} | {empty}
probe {no_truth} | tetris
probe {run} games=2 | games=2
probe {run} checkpoint=soon | checkpoint=soon
probe {run} out={file} | {file}
layers {no_truth} variants=green_lines | tetris
intervene {no_truth} | tetris
embed {run} frames=2 | frames=2
layers | at least one run folder
layers {run} | variants=original
layers {run} variants=nope | nope
layers {run} variants=drift_left | drift_left
layers {run} variants=green_lines frames=3 | frames=3
layers {run} variants=green_lines player=me | me
layers {empty} variants=green_lines | {empty}
intervene {run} method=magic | method | magic
intervene {run} player=me | me
intervene {run} frames=1 | frames=1
intervene agent:nobody | nobody
breaking {run} tries=1 | tries=1
breaking {run} kept=2 | kept=2
breaking {run} divergence=1 | divergence=1
breaking {run} largest=0 | largest=0
breaking {run} episodes=0 | episodes=0
embed {run} method=isomap | isomap
embed {run} neighbours=0 | neighbours=0
embed {run} perplexity=0 | perplexity=0
embed {run} variants=nope | nope
attention {empty} | {empty}
attention {run} variant=nope | nope
attention {run} steps=1 | steps=1
attention {run} steps=1000000 | steps=1000000
attention {run} seed=x | seed=x
attention {run} shared=2 | shared=2
attention {run} method=magic | method | magic
attention {run} player=me | player=me
attention {run} checkpoint=soon | checkpoint=soon
attention {run} over_training=true checkpoint=best | over_training=true
attention {run} games=1 | games=1
attention {run} threads=0 | threads=0
attention {no_checkpoints} | checkpoint
pretrain data=random total_frames=64 | auxiliary is none | reprl list auxiliary
pretrain data=randm auxiliary=spr | data=randm is unknown | Did you mean 'random'?
pretrain data={run} auxiliary=spr | is no recording | reprl record player=
pretrain data={empty} auxiliary=spr | is no recording
pretrain data=random auxiliary=spr total_frames=x | total_steps=x
pretrain data=random auxiliary=spr frames=1 | algo.frames=1
pretrain data=random auxiliary=spr encoder.freeze=true | encoder.freeze=true | nothing to train
pretrain data=random auxiliary=motion_target attention=conv env.stack=1 | env.stack=1
pretrain data=scripted env.game=tetris auxiliary=spr | scripted | tetris
pretrain data=random auxiliary=spr algo.n_steps=5 | algo.n_steps
record | out=DIR
record out={run} | is not empty
record out={file} | is a file
record out=new player=nobody | player=nobody is unknown
record out=new player=agent:nobody | nobody
record out=new frames=0 | frames=0
record out=new frames=1e9 | frames=1e9
record out=new variant=nope | nope
record out=new size=4 | size=4
record out=new player=scripted game=tetris | scripted | tetris
record out=new minari=x-v0 | name its folder
record {run} | minari=NAME-v0
record {run} minari=x-v0 | is no recording
rate | rate
rate {empty} | {empty} | reprl evaluate
rate {run} resamples=1 | no key 'resamples'
rate {run} | evaluate another
plasticity | exactly one run folder
plasticity {empty} | {empty}
plasticity {run} frames=1 | frames=1
plasticity {run} steps=0 | steps=0
plasticity {run} checkpoint=soon | checkpoint=soon
play record=true name=a/b | name=a/b
play record=true episodes=0 | episodes=0
play record=true out={file} | {file}
play agent:imitation record=true | record=true
play game=pong variant=mode_4 | mode_4 | pong
report | at least one run folder
report nowhere | no folder 'nowhere'
report {file} | is a file
report {run} figures=maybe | figures=maybe
report {run} style=x | no key 'style'
report {run} out={file} | {file}
runs {run} {run} | at most one folder
runs nowhere | no folder 'nowhere'
runs {file} | is a file
runs {run} status=done | status=done
runs {run} match=a match=b | match is given twice
runs {run} export={file} | {file}
diff | at least one run folder
diff {run} | two run folders, got 1
diff {run} {run} {run} | two run folders, got 3
diff {run} {empty} | is not a run folder
diff {run} {not_yaml} | config.yaml
diff {run} {not_json} | run.json
play variant=nope | nope
play severity=2 | severity=2
play view=ego | view=ego
play where=moon | where=moon
play seed=-1 | seed=-1
play {run} {run} | at most one folder
play {run} variant=nope | nope
resume agent:imitation | reprl resume | parent=agent:imitation
extend agent:imitation total_steps=300_000 | reprl extend | parent=agent:imitation
play agent:imitatoin | imitatoin | imitation
preview variant=nope | nope
preview variant=green_lines video=x.mp4 seconds=0 | seconds=0
preview variant=green_lines,diagonals video=x.mp4 | one variant
preview skill=2 | skill=2
preview game=pong variant=player_red | 'player_red' | 'pong'
preview game=boxing | scripted agent | 'boxing'
preview game=Pung | 'Pung' | 'pong'
preview seed=x | seed=x
preview severity=5 | severity=5
preview {run} | takes no folder
video | at least one run folder
video {run} variant=nope | nope
video {run} variant=suite:published | variant=suite:published | one variant
video {run} output=film.avi | output=film.avi | .mp4 or .gif
video {run} seconds=0 | seconds=0
video {run} attention=msk | attention=msk | Did you mean 'mask'?
video {run} checkpoint=first | checkpoint=first
video {run} {run} {run} {run} {run} | at most 4
video agent:imitatoin | imitatoin | Did you mean 'imitation'?
evaluate {run} wandb=yes | wandb=yes
report {run} wandb=on | wandb=on | Did you mean
list nothing | no group 'nothing'
list encodr | Did you mean 'encoder'?
list --config-dir=nowhere | no folder 'nowhere'
list --config-dir | --config-dir needs a value
list -z | no option '-z'
completion klingon | klingon
trian | no command 'trian' | Did you mean 'train'?
'' | there is no command
--fast | there is no command
"""
QUICK = ("device=cpu", "threads=1", "progress=off")  # of every `train`, unless a case says other


def cases() -> Iterator[tuple[str, list[str]]]:
    for line in TRAIN.strip().splitlines():
        command, *words = line.split(" | ")
        keys = {word.partition("=")[0] for word in command.split()}
        rest = " ".join(word for word in QUICK if word.partition("=")[0] not in keys)
        yield f"train {command} {rest}", words
    for line in OTHERS.strip().splitlines():
        command, *words = line.split(" | ")
        yield command, words


CASES = list(cases())
# one of each command again as a process of its own, as a shell would start it
FRESH = [case for name in ("train seed=abc", "resume {not_json}", "evaluate {run} agents=expert",
                           "report {file}", "trian")
         for case in CASES if case[0].startswith(name)]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders to give to commands, made once: none of them may change."""
    place = tmp_path_factory.mktemp("bad")
    (place / "empty").mkdir()
    (place / "file").write_text("some text\n")
    with zipfile.ZipFile(place / "stock.zip", "w") as stock:  # as far as it is read unpickled
        stock.writestr("data", '{"n_epochs": 4}')
    (place / "claimed").mkdir()
    (place / "claimed" / "claims.yaml").write_text("- {method: only_drac, baseline: plain}\n")
    for name in ("run", "no_record", "no_config", "not_json", "not_yaml", "a_list", "unknown_key"):
        shutil.copytree(GOLDEN, place / name)
    for name in ("edited", "later", "no_checkpoints", "no_truth"):
        shutil.copytree(GOLDEN, place / name)
    settings = place / "no_truth" / "config.yaml"
    settings.write_text(settings.read_text().replace("game: breakout", "game: tetris"))
    (place / "no_record" / "run.json").unlink()
    (place / "no_config" / "config.yaml").unlink()
    (place / "not_json" / "run.json").write_text('{"status": "interr')
    (place / "not_yaml" / "config.yaml").write_text("seed: 0\nalgo: [1,\n")
    (place / "a_list" / "config.yaml").write_text("[1, 2]\n")
    for name, line in (("unknown_key", "encodr: 3\n"), ("edited", "")):
        file = place / name / "config.yaml"
        file.write_text(file.read_text().replace("seed: 0", "seed: 1") + line)
    shutil.rmtree(place / "no_checkpoints" / "checkpoints")
    for name in ("unknown_key", "edited", "later"):
        record = place / name / "run.json"
        values = json.loads(record.read_text())
        record.write_text(json.dumps({**values, "status": "interrupted"}))
    for manifest in (place / "later" / "checkpoints").glob("*/manifest.json"):
        values = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**values, "format": 99}))
    return place


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder, which must stay so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    trust.begin()


def contents(place: Path) -> dict[str, tuple[int, int]]:
    """What lies below a folder; locks may appear, they hold nothing."""
    found = {str(p): p.lstat() for p in place.rglob("*") if not p.name.endswith("lock")}
    return {name: (s.st_mtime_ns if name[-1:] != "/" else 0, s.st_size) for name, s in found.items()
            if not Path(name).is_dir()}  # fmt: skip


def filled(command: str, made: Path) -> list[str]:
    names = {path.stem: str(path) for path in made.iterdir()}
    return [word.format(**names) for word in shlex.split(command)]


def judge(error: str, words: list[str], made: Path) -> None:
    names = {path.stem: str(path) for path in made.iterdir()}
    assert "Traceback" not in error
    said = [line for line in error.splitlines() if not line.startswith("WARNING: ")]
    assert said[0].startswith("reprl: ")
    assert len(said) == 1, "one sentence"
    assert any(c.isalpha() for c in error)
    for word in words:
        assert word.format(**names) in error


@pytest.mark.parametrize(("command", "words"), CASES, ids=[c for c, _ in CASES])
def test_wrong_input_is_one_sentence_and_nothing_is_left(
    command: str, words: list[str], made: Path, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, began = contents(made), time.process_time()
    code = main(filled(command, made))
    spent = time.process_time() - began
    said = capsys.readouterr()
    judge(said.err, words, made)
    assert code == 2
    assert contents(made) == before
    assert not list(work.iterdir())
    assert spent < SECONDS


@pytest.mark.parametrize(("command", "words"), FRESH, ids=[c for c, _ in FRESH])
def test_a_shell_sees_the_same(command: str, words: list[str], made: Path, work: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "reprl", *filled(command, made)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 2
    judge(done.stderr, words, made)
    assert not list(work.iterdir())


def test_the_catalogue_covers_every_command() -> None:
    from reprl.cli import commands

    assert {case[0].split()[0] for case in CASES} >= set(commands())
    assert len(CASES) >= 150
    assert len({case[0] for case in CASES}) == len(CASES)
