"""The configuration: TOML in, one frozen value out, or every problem there is.

A section is a dataclass listed in `model.Config`; reading, writing, checking and the
reference pages follow from its fields and their docstrings.
"""
