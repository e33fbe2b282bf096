"""Verbs that are programs of their own."""
