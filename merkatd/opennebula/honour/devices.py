"""PCI devices: whether those that a host has free are what a VM asks for."""

from collections.abc import Iterable, Sequence

from merkatd.opennebula.wanted import NOBODY, Device, PciWant


def allotted(wants: Sequence[PciWant], devices: Iterable[Device]) -> list[str] | None:
    """The addresses that oned would give, None where it can't.

    As oned does it: wants for one very device first, then each in turn the first that fits.
    """
    free = sorted((one for one in devices if one.vm == NOBODY), key=lambda device: device.address)
    taken: list[str] = []
    for want in sorted(wants, key=_by_name):
        found = next(
            (one.address for one in free if one.address not in taken and _fits(want, one)), None
        )
        if found is None:
            return None
        taken.append(found)
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


def _fits(want: PciWant, device: Device) -> bool:
    if not _by_name(want):
        return device.address == want.address
    pairs = (
        (want.vendor, device.vendor),
        (want.device, device.device),
        (want.kind, device.kind),
    )
    named = any(asked for asked, _ in pairs)
    same = all(not asked or _number(asked) == _number(has) for asked, has in pairs)
    profile = not want.profile or not device.profiles or want.profile in device.profiles
    return named and same and profile


def _number(text: str) -> int | str:
    """Ids are hexadecimal, with or without leading zeros."""
    try:
        return int(text, 16)
    except ValueError:
        return text
