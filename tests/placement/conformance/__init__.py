"""Conformance: what every strategy of the registry promises."""
