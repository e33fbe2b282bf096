"""The configuration: TOML in, one frozen value out, or every problem there is.

A section is a dataclass listed in `model.Config`; reading, writing, checking and the
reference pages follow from its fields and their docstrings.
"""

from merkatd.config.load import load, parse
from merkatd.config.model import Config
from merkatd.config.problems import ConfigError, Problem

__all__ = ["Config", "ConfigError", "Problem", "load", "parse"]
