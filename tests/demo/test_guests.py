"""Without real guests, the demo tells its user how to get them."""

from pathlib import Path

import pytest

from merkatd.demo import real_guests
from merkatd.demo.demo_options import GuestKind
from merkatd.demo.real_guests import GuestsError

libvirt = pytest.importorskip("libvirt")


def _at(monkeypatch: pytest.MonkeyPatch, socket: Path) -> None:
    """Replace libvirt's addresses by this socket."""
    for kind in GuestKind:
        address = f"{'lxc' if kind is GuestKind.LXC else 'qemu'}+unix:///system?socket={socket}"
        monkeypatch.setitem(_ADDRESSES, kind, address)
    monkeypatch.setattr(GuestKind, "address", property(lambda kind: _ADDRESSES[kind]))


_ADDRESSES: dict[GuestKind, str] = {}


def test_without_libvirtd_the_error_names_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It names the package once, for both kinds of guests."""
    _at(monkeypatch, tmp_path / "socket")
    with pytest.raises(GuestsError, match="can't run real guests") as raised:
        real_guests.kind_here()
    message = str(raised.value)
    assert message.count("libvirt-daemon-system") == 1
    assert "qemu+unix" in message
    assert "lxc+unix" in message


def test_each_kind_of_guest_is_described() -> None:
    """Emulated guests are called emulated."""
    assert "emulated by QEMU" in GuestKind.QEMU.words
    assert len({kind.words for kind in GuestKind}) == len(GuestKind)
