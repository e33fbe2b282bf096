"""Ports, settings and state that the phases of a period share."""
