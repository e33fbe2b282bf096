"""PCI devices: whether those that a host has free are what a VM asks for."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from merkatd.opennebula.wanted import NOBODY, Device, PciWant


def allotted(wants: Sequence[PciWant], devices: Iterable[Device]) -> list[str] | None:
    """The addresses that oned would give, None where it can't.

    As oned does it: wants for one very device first, then each in turn the first that fits.
    """
    free = sorted(map(_has, (one for one in devices if one.vm == NOBODY)))
    if len(wants) > len(free):
        return None
    taken: list[str] = []
    for want in sorted(wants, key=_by_name):
        asked = _ids(want)
        row = next((row for row, one in enumerate(free) if _fits(want, asked, one)), None)
        if row is None:
            return None
        # Each is looked at once by those that come later: they ask for no device that is taken.
        taken.append(free.pop(row).address)
    return taken


def described(want: PciWant) -> str:
    """What was asked for, in words."""
    parts = {
        "vendor": want.vendor,
        "device": want.device,
        "class": want.kind,
        "profile": want.profile,
    }
    words = [f"{name} {text}" for name, text in parts.items() if text]
    if not _by_name(want):
        words = [f"address {want.address}"]
    return ", ".join(words) or "nothing that names it (VENDOR, DEVICE, CLASS or SHORT_ADDRESS)"


def _by_name(want: PciWant) -> bool:
    """Whether it is chosen by what it is: a want that was served once still shows an address."""
    return bool(want.vendor or want.device or want.kind) or not want.address


class _Free(NamedTuple):
    """A device that is free."""

    address: str
    ids: tuple[str, ...]
    profiles: tuple[str, ...]


def _has(device: Device) -> _Free:
    return _Free(device.address, _ids(device), tuple(device.profiles))


def _fits(want: PciWant, asked: tuple[str, ...], device: _Free) -> bool:
    if not _by_name(want):
        return device.address == want.address
    if not any(asked) or any(
        one and one != has for one, has in zip(asked, device.ids, strict=True)
    ):
        return False
    return not want.profile or not device.profiles or want.profile in device.profiles


def _ids(one: PciWant | Device) -> tuple[str, ...]:
    """Vendor, device and class; an empty text where none is named."""
    return _id(one.vendor), _id(one.device), _id(one.kind)


def _id(text: str) -> str:
    """Ids are hexadecimal, with or without leading zeros; other texts stay as they are."""
    try:
        return f"{int(text, 16):x}"
    except ValueError:
        return text
