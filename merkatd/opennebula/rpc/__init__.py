"""Calls to oned."""
