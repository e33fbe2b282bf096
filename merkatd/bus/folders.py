"""Folders of platforms: what their processes said, and what monitors noted. They go in the end."""

import shutil
from collections.abc import Set as AbstractSet
from pathlib import Path


def sweep(folder: Path, kept: AbstractSet[int]) -> int:
    """Remove the folders of all platforms but these; returns how many there were.

    What is not named like a platform's folder is not ours, and stays.
    """
    if not folder.is_dir():
        return 0
    gone = [
        one
        for one in folder.iterdir()
        if one.name.isascii() and one.name.isdigit() and int(one.name) not in kept
    ]
    for one in gone:
        shutil.rmtree(one, ignore_errors=True)
    return len(gone)
