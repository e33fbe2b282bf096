"""Batch systems as monitors see and steer them: one module each, behind one small interface."""
