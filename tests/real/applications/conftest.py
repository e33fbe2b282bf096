"""These tests run by themselves, in namespaces of their own: `docs/experiments.md` has the command.

They take minutes, and an application in real time is only as fast as the machine: one with other
work to do can't keep a deadline.
"""

import os

if not {"MERKAT_REAL", "MERKAT_APPLICATIONS"} <= os.environ.keys():
    collect_ignore_glob = ["test_*.py"]
