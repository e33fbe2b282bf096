"""OpenNebula's own `onegroup`, which is about groups of users: its verbs, and where it is."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

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
    """Where OpenNebula's command is, as far as the PATH knows it besides this one."""
    own = Path(sys.argv[0]).resolve()
    for folder in environment.get("PATH", "").split(os.pathsep):
        path = Path(folder) / "onegroup"
        if folder and path.is_file() and path.resolve() != own:
            return str(path)
    return "OpenNebula's own onegroup"


def answer(verb: str) -> str:
    """What is said to one of its verbs."""
    return (
        f"{verb} is about groups of users, which are OpenNebula's; here groups are of VMs that"
        f" share a spending rate. For groups of users: {elsewhere()} {verb}"
    )
