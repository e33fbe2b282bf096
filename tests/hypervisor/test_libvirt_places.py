"""Addresses of hosts: patterns, and errors for wrong ones."""

from random import Random

import libvirt
import pytest

from merkatd.config.errors import ConfigError
from merkatd.config.loader import parse
from merkatd.hypervisor.libvirt import (
    Addresses,
    HostAddress,
    LibvirtHypervisors,
    LibvirtMissingError,
    LibvirtSettings,
)
from merkatd.hypervisor.libvirt.host import libvirt_module
from merkatd.hypervisor.libvirt.host.guest import DomainFacts, Guest
from merkatd.hypervisor.libvirt.host.host_connection import HostConnection
from merkatd.hypervisor.libvirt.host.kvm import Kvm
from merkatd.hypervisor.libvirt.host.settings import command_error, pattern_error
from tests.hypervisor.bed import OneThread

HERE = HostAddress(7, "node-7.example", 101)


@pytest.mark.parametrize(
    ("pattern", "address"),
    [
        ("qemu+ssh://oneadmin@{host}/system", "qemu+ssh://oneadmin@node-7.example/system"),
        ("qemu+tls://{host}/system", "qemu+tls://node-7.example/system"),
        ("xen+ssh://root@{host}", "xen+ssh://root@node-7.example"),
        ("lxc:///system", "lxc:///system"),
        ("qemu+unix:///system?socket=/run/{cluster}/{id}", "qemu+unix:///system?socket=/run/101/7"),
    ],
)
def test_patterns_give_addresses(pattern: str, address: str) -> None:
    """Patterns exist for every transport and for the local machine."""
    assert pattern_error(pattern) is None
    assert Addresses(pattern, {})(HERE) == address


@pytest.mark.parametrize(
    "pattern",
    ["qemu+ssh://{hots}/system", "{}", "{host", "node-7", "vbox:///session", "{host.name}:///", ""],
)
def test_wrong_patterns_are_errors(pattern: str) -> None:
    """Each wrong pattern has an error text."""
    assert pattern_error(pattern)


def test_the_first_matching_name_applies() -> None:
    """Other hosts get the common address."""
    addresses = Addresses("qemu:///a", {"node-7*": "lxc:///{id}", "node*": "xen:///b"})
    assert addresses(HERE) == "lxc:///7"
    assert addresses(HostAddress(1, "node-1")) == "xen:///b"
    assert addresses(HostAddress(2, "big")) == "qemu:///a"


def test_the_configuration_is_read_and_checked() -> None:
    """Every key is read, and wrong values are errors."""
    text = """
[hypervisor]
kind = "libvirt"
uri = "qemu+tls://{host}/system"
uris = { "lxc*" = "lxc+ssh://{host}/system" }
call_limit = "3s"
pin_hosts = ["node*"]
reserved_cores = [0, 1]
"""
    hypervisor = parse(text).hypervisor
    assert hypervisor.uris == {"lxc*": "lxc+ssh://{host}/system"}
    assert hypervisor.call_limit_s == 3.0
    assert hypervisor.pin_hosts == frozenset({"node*"})
    assert hypervisor.reserved_cores == frozenset({0, 1})
    for wrong in (
        'uri = "node"',
        'uris = { a = "b" }',
        "check_every = 0",
        'xen_command = "{x}"',
    ):
        with pytest.raises(ConfigError):
            parse(f"[hypervisor]\n{wrong}\n")


def test_commands_on_a_host_may_name_the_host_only() -> None:
    """Other placeholders and invalid shell texts are errors."""
    for command in ("xl", "ssh {host} sudo xl", "ssh -i '/a key' root@{host} xl"):
        assert command_error(command) is None
    for command in ("", "  ", "ssh {domain} xl", "ssh {} xl", "ssh '{host} xl"):
        assert command_error(command)


def test_a_missing_libvirt_module_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setattr(libvirt_module, "libvirt", None)
    with pytest.raises(LibvirtMissingError, match=r"merkat\[kvm\].*libvirt-dev"):
        LibvirtHypervisors(OneThread(), lambda _place: "qemu:///system")


def test_libvirts_own_test_driver_works() -> None:
    """Its domains are found, described, resized in memory and read for pins.

    It supports no quotas.
    """
    settings = LibvirtSettings()
    chance = Random(1)  # noqa: S311 - keeps no secret
    host = HostConnection(HERE, "test:///default", settings, OneThread().seconds, chance, pins=True)
    connection = host.connection()
    connection.lookupByName("test").destroy()
    connection.createXML(
        "<domain type='test'><name>one-3</name><memory>1048576</memory><vcpu>2</vcpu>"
        "<os><type>hvm</type></os><devices><memballoon model='virtio'/></devices></domain>"
    )
    driver = Kvm()
    (sight,) = driver.survey(host, [3, 4])
    guest = Guest(vm=3, domain=sight.domain, opening=host.openings, run=1, sight=sight)
    driver.describe(host, guest)
    assert guest.described == DomainFacts(vcpus=2, balloon=True)
    assert driver.cores(host, guest) == ()
    driver.set_memory(host, guest, 512)
    assert sight.domain.info()[2] == 512 * 1024
    assert host.topology is not None
    assert host.topology.usable == 16
    connection.lookupByName("one-3").destroy()
    assert driver.survey(host, [3]) == []
    with pytest.raises(libvirt.libvirtError) as raised:
        driver.words(host, guest)
    assert raised.value.get_error_code()
    host.close()
