"""Agents that ship with reprl, each a run folder of weights: `agent:NAME` on the command line."""
