"""Texts of answers that are more than a table."""
