#!/usr/bin/env bash
# The commands that wrote these files, run with reprl 0.2.0 (commit 996c360) in an empty folder.
# They are a record: a later version must read what is here, not write it again.
set -euo pipefail
export OMP_NUM_THREADS=1
small=(threads=1 device=cpu progress=off env.n_envs=2 env.max_frames=1000 log.every=20
       eval.episodes=1 "eval.variants=[original,green_lines]" encoder.features_dim=8)
ppo=(algo=ppo algo.n_steps=16 algo.batch_size=16 algo.n_epochs=2 algo.instrument_every=1
     total_steps=128 checkpoint.every=64 eval.every=64)
a2c=(algo=a2c algo.n_steps=5 algo.instrument_every=2 total_steps=120 checkpoint.every=60 eval.every=60)
narrow=(encoder=impala encoder.width=0.25)
views=(augmentation=gray_boxes augmentation.use=views)
contrastive=(auxiliary=contrastive auxiliary.feature=8)

for seed in 0 1 2; do
  reprl train "${small[@]}" "${a2c[@]}" attention=conv_21 "${contrastive[@]}" "${views[@]}" \
    seed=$seed run_dir=runs/a2c_plain_s$seed
  reprl train "${small[@]}" "${ppo[@]}" "${narrow[@]}" attention=self_attention \
    auxiliary=attention_contrastive auxiliary.contrastive.feature=8 auxiliary.decoder.hidden=8 \
    augmentation=shift seed=$seed run_dir=runs/ppo_plain_s$seed
  reprl train "${small[@]}" "${ppo[@]}" "${narrow[@]}" seed=$seed run_dir=runs/ppo_none_s$seed
done
reprl train "${small[@]}" "${ppo[@]}" "${narrow[@]}" attention=conv_21 "${contrastive[@]}" \
  "${views[@]}" mode=fast seed=0 run_dir=runs/ppo_fast_s0
reprl train "${small[@]}" "${a2c[@]}" "${narrow[@]}" attention=per_frame \
  "auxiliary=[contrastive,temporal]" auxiliary.contrastive.feature=8 auxiliary.temporal.latent=8 \
  auxiliary.temporal.hidden=8 "${views[@]}" mode=fast seed=0 run_dir=runs/a2c_fast_s0

# What follows is measured on the checkpoint in the middle, which is the one that is kept.
python -m tests.golden.record finals runs  # hashes and summaries of the last checkpoints, which are dropped
reprl evaluate runs variants=original,green_lines,moving_square,noise@0.5 episodes=3 seed=0 \
  agents=random n_envs=8 workers=0 threads=1 progress=off
reprl evaluate runs twin=true variants=original,green_lines steps=40 workers=0 threads=1 progress=off
for run in a2c_plain_s0 ppo_plain_s0; do
  reprl attention runs/$run variant=original,green_lines steps=60 threads=1
done
python -m tests.golden.record tidy runs  # no tensorboard, pictures, and machine; checkpoints of seed 0 only
reprl report runs out=report figures=false
python -m tests.golden.record environment .  # environment.snapshot and what it continues to
python -m tests.golden.record machine .      # the CPU that all this was computed on
