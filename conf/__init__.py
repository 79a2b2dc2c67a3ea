"""Hydra groups, installed as reprl.conf; pkg://reprl.conf needs this file."""
