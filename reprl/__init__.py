"""reprl: does this representation make an RL agent generalize, and where does it look?"""

__version__ = "0.3.0"
