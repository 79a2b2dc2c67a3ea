"""The explorer: games that were recorded as twins, kept small, and put into the report."""
