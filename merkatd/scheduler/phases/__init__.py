"""The phases of a period."""
