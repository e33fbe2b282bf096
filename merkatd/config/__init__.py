"""The configuration: TOML text becomes one frozen value, or a list of all problems.

Each section is a dataclass listed in `configuration.Config`. Its fields and their docstrings
determine reading, writing, checking and the reference pages.
"""
