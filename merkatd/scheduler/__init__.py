"""The period: observe, charge, decide, act and announce, joined in `period.py`."""
