"""Where no real guests can be had, whoever asks for them is told what would help."""

from pathlib import Path

import pytest

from merkatd.demo import real_guests
from merkatd.demo.guest_domains import GuestKind
from merkatd.demo.real_guests import GuestsError

libvirt = pytest.importorskip("libvirt")


def _at(monkeypatch: pytest.MonkeyPatch, socket: Path) -> None:
    """Let libvirtd be sought there."""
    for kind in GuestKind:
        address = f"{'lxc' if kind is GuestKind.LXC else 'qemu'}+unix:///system?socket={socket}"
        monkeypatch.setitem(_ADDRESSES, kind, address)
    monkeypatch.setattr(GuestKind, "address", property(lambda kind: _ADDRESSES[kind]))


_ADDRESSES: dict[GuestKind, str] = {}


def test_without_libvirtd_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Once, for both kinds of guests that are sought."""
    _at(monkeypatch, tmp_path / "socket")
    with pytest.raises(GuestsError, match="can't run real guests") as raised:
        real_guests.kind_here()
    said = str(raised.value)
    assert said.count("libvirt-daemon-system") == 1
    assert "qemu+unix" in said
    assert "lxc+unix" in said


def test_what_a_watcher_is_told_about_guests() -> None:
    """Nobody takes emulated machines for what the hardware can do."""
    assert "emulated by QEMU" in GuestKind.QEMU.words
    assert len({kind.words for kind in GuestKind}) == len(GuestKind)
