"""Pools read from XML to rows."""
