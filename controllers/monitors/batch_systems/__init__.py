"""Adapters of batch systems: one module for each system, behind one small interface."""
