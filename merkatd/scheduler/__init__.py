"""The period: observe, decide, act, charge, tell; each its own module, joined in `period.py`."""
