"""Where hosts are: libvirt's addresses from a pattern, and which driver each speaks to."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

PLACEHOLDERS = ("host", "id", "cluster")
DRIVERS = ("qemu", "lxc", "xen", "test")
"""What the word before `:` or `+` of an address may be."""

_ADDRESS = re.compile(r"(?P<driver>[a-z]+)(\+[a-z0-9]+)?://\S*")


@dataclass(frozen=True, slots=True)
class Place:
    """A host by all that an address may be made of."""

    id: int
    name: str
    cluster: int = -1


@dataclass(frozen=True, slots=True)
class Addresses:
    """An address for each host: the first pattern of names that fits, else the common one."""

    common: str
    by_name: Mapping[str, str]

    def __call__(self, place: Place) -> str:
        """The address of a host."""
        pattern = next(
            (found for names, found in self.by_name.items() if fnmatchcase(place.name, names)),
            self.common,
        )
        return pattern.format(host=place.name, id=place.id, cluster=place.cluster)


def driver_of(address: str) -> str:
    """What answers there; `address` is one that `wrong_pattern` finds nothing wrong with."""
    match = _ADDRESS.fullmatch(address)
    return match["driver"] if match else ""


def wrong_pattern(pattern: str) -> str | None:
    """What is wrong with a pattern of addresses, None where nothing is."""
    sample = dict.fromkeys(PLACEHOLDERS, "1")
    try:
        address = pattern.format(**sample)
    except (KeyError, IndexError, ValueError, AttributeError):
        return f"has braces around something else than {', '.join(PLACEHOLDERS)}"
    if driver_of(address) not in DRIVERS:
        return (
            f"must begin with {', '.join(DRIVERS[:3])}, for example"
            " 'qemu+ssh://oneadmin@{host}/system'"
        )
    return None
