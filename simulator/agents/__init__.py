"""Protocols of node agents, each with a small view of the others, as cycles over arrays."""
