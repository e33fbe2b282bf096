"""OpenNebula's own `onegroup`, which is about groups of users: its verbs, and where it is."""

import os
from collections.abc import Mapping
from pathlib import Path

from onegroup.program import NAME

_LONGEST_LINE = 256
VERBS = frozenset(
    {
        "addadmin",
        "addmember",
        "batchquota",
        "defaultquota",
        "deladmin",
        "delmember",
        "quota",
        "resources",
        "update",
    }
)
"""Those that ours does not have too."""


def elsewhere(environment: Mapping[str, str] = os.environ) -> str:
    """Where OpenNebula's command is, as far as the PATH knows: the first one written in Ruby."""
    for folder in environment.get("PATH", "").split(os.pathsep):
        path = Path(folder) / NAME
        if folder and _is_opennebulas(path):
            return str(path)
    return "OpenNebula's own onegroup"


def _is_opennebulas(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"ruby" in file.readline(_LONGEST_LINE)
    except OSError:
        return False


def answer(verb: str) -> str:
    """What is said to one of its verbs."""
    return (
        f"{verb} is about groups of users, which are OpenNebula's; here groups are of VMs that"
        f" share a spending rate. For groups of users: {elsewhere()} {verb}"
    )
