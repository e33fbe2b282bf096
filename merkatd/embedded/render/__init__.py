"""Replies as the XML that oned sends."""
