"""From the command line to a checked configuration: compose, overrides, schema, checks."""

from reprl.config.schema import Config, check, load

__all__ = ["Config", "check", "load"]
