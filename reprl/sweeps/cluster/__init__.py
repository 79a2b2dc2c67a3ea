"""Sweeps on a cluster: a plan's jobs handed to SLURM or Ray through Hydra's launchers."""
