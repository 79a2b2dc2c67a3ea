"""A map of the features: states as points, clean joined to its twin, neighbours as frames."""
