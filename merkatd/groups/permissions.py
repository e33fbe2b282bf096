"""Who may do what with a group: OpenNebula's nine bits, for its owner, its group and all others."""

from enum import IntEnum

from merkatd.database.fleets.group_store import Group

OWN = 0o600
"""What a new group permits: use and manage, to its owner, as OpenNebula's own resources do."""
MOST = 0o777


class Right(IntEnum):
    """What somebody wants to do, as the bit that permits it."""

    USE = 4
    MANAGE = 2
    ADMIN = 1


def permits(group: Group, user: int, groups: frozenset[int], right: Right) -> bool:
    """Whether the bits of any class that the user belongs to permit it."""
    classes = (group.owner == user, group.user_group in groups, True)
    return any(
        belongs and group.permissions >> shift & right
        for belongs, shift in zip(classes, (6, 3, 0), strict=True)
    )


def octal(permissions: int) -> str:
    """As `chmod` takes it: 640."""
    return f"{permissions:03o}"


def letters(permissions: int) -> str:
    """As OpenNebula's commands show it: um-u-----."""
    marks = ("u", "m", "a") * 3
    return "".join(mark if permissions >> (8 - at) & 1 else "-" for at, mark in enumerate(marks))
