"""What is meant where nothing is named: the game, and the variant that leaves it as it is."""

DEFAULT_GAME = "breakout"
GYMNASIUM = "gymnasium/"  # begins the names of games that are environments of gymnasium
CLEAN = "original"  # the unchanged game, which every gap is measured from
