"""The Debian package under systemd, by the administrators' pages, word for word."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.real import machine as machines
from tests.real.beside import SESSION, VMS, cloud, new, quotas, running
from tests.real.host import until
from tests.real.machine import PATIENCE_S, Books, Machine

__all__ = ["cloud"]

INSTALL = "install.md"
ADMINISTRATOR = "administrator.md"
TROUBLE = "troubleshooting.md"
APT = "apt install ./dist/merkat_*.deb"
SURE = {"merkatd release": "y\n"}
"""The answers that are typed on the terminal."""
TROUBLES = (
    "Nothing happens",
    "A VM stays pending",
    "A VM is slow",
    "A VM was moved, and I don't know why",
    "Steps are refused or expire",
    "Periods fail",
    "A host is away, or limits are not set",
    "A new configuration has no effect",
    "The service does not start, or starts again and again",
    "Credits look wrong",
)
SHOWN = "bid vm0 --list RESOURCE,OLD --csv --no-header"


@pytest.fixture(scope="class")
def machine(
    request: pytest.FixtureRequest,
    cloud: tuple[int, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Machine]:
    """Yield a machine for all tests of a class, which run in order."""
    place = tmp_path_factory.mktemp("machine")
    with machines.running(place, request.cls.KIND, cloud[0]) as running_machine:
        try:
            yield running_machine
        finally:
            # pytest shows the output of a failed test.
            sys.stdout.write(running_machine.log())


@pytest.fixture
def lite(machine: Machine) -> Machine:
    """Yield a machine with SQLite on which the daemon acts."""
    machine.active()
    return machine


def installed(machine: Machine, cloud: tuple[int, Any]) -> None:
    """Install the package from a folder, as the page says."""
    machine.reader.command(INSTALL, APT)
    assert machine.system.show("ActiveState") == "inactive"
    assert not machine.enabled()
    machine.configure()
    machine.system.ok("systemctl", "enable", "--now", "merkatd")
    assert machine.enabled()
    limited(cloud)
    until(lambda: machine.figure('merkat_periods_total{outcome="done"}') > 1, "figures")
    assert machine.count("tenants") > 0


def removed(machine: Machine, cloud: tuple[int, Any]) -> None:
    """Remove and purge the package."""
    accounts, tenants, periods = map(machine.count, ("accounts", "tenants", "periods"))
    output = machine.reader.command(INSTALL, "apt remove merkat", typed="y\n")
    assert not quotas(cloud[1]), output
    assert machine.system.run("pgrep", "-u", "merkat").out == ""
    assert machine.system.run("systemctl", "start", "merkatd").code != 0
    machine.reader.command(INSTALL, "apt purge merkat", typed="y\n")
    assert (machine.count("accounts"), machine.count("tenants")) == (accounts, tenants)
    assert machine.count("periods") >= periods


def limited(cloud: tuple[int, Any]) -> None:
    """Wait until VMs have limits."""
    until(lambda: len(quotas(cloud[1])) == VMS, "VMs are limited", patience_s=PATIENCE_S)


def no_limits(cloud: tuple[int, Any]) -> None:
    """Check that no host has a limit."""
    assert not quotas(cloud[1])


class TestWithSqlite:
    """A first week as the pages describe it, and an update."""

    KIND = "sqlite"

    def test_it_is_installed_and_started(self, machine: Machine, cloud: tuple[int, Any]) -> None:
        """Only the administrator starts it; then VMs have limits, and commands show its state."""
        installed(machine, cloud)

    def test_what_it_does_and_how_it_is_stopped(
        self, lite: Machine, cloud: tuple[int, Any]
    ) -> None:
        """Paused, it starts no period; after release no VM has limits; stopped, no process runs."""
        walk = lite.reader.walk
        output = walk(ADMINISTRATOR, "What will it do to my VMs?", user="merkat")
        assert "vm0" in output["merkatd explain VM"]
        paused: list[int] = []
        walk(
            ADMINISTRATOR,
            "How do I stop it?",
            user="merkat",
            typed=SURE,
            then={
                "merkatd pause": lambda: paused.append(lite.count("periods")),
                "merkatd release": lambda: no_limits(cloud),
            },
        )
        lite.ended()
        assert lite.count("periods") <= paused[0] + 1
        lite.active()
        released = {"merkatd release": lambda: no_limits(cloud)}
        walk(ADMINISTRATOR, "How do I go back?", user="merkat", typed=SURE, then=released)
        lite.ended()
        assert not lite.enabled()
        lite.active()
        limited(cloud)

    def test_the_first_week(self, lite: Machine, cloud: tuple[int, Any]) -> None:
        """Foreign placements are compared; before mode on, it executes only approved steps."""
        _, proxy = cloud
        there: list[int] = []

        def beside() -> None:
            lite.go_on()
            new(proxy, "theirs", host=0)
            lite.go_on()

        def arrive() -> None:
            lite.go_on()
            there.append(running(proxy))
            new(proxy, "asked"), new(proxy, "asked")
            until(lambda: lite.merkatd("plan show").count("deploy") > 1, "a plan waits")

        lite.merkatd("mode dry")
        lite.go_on()
        output = lite.reader.walk(
            ADMINISTRATOR,
            "The first week",
            user="merkat",
            then={
                "merkatd mode shadow": beside,
                "merkatd mode ask": arrive,
                "merkatd plan approve --skip 2": lambda: until(
                    lambda: running(proxy) == there[0] + 1, "one of two is placed"
                ),
                "merkatd plan refuse": lite.go_on,
            },
            before={"merkatd plan refuse": arrive},
        )
        assert "Another scheduler placed 1 VMs" in output["merkatd shadow"]
        assert there[1] == there[0] + 1

    def test_changing_watching_and_maintaining(self, lite: Machine) -> None:
        """A reload applies; the journal has the daemon's log; a drained host is shown as such."""
        walk = lite.reader.walk
        walk(ADMINISTRATOR, "Changing the configuration", user="merkat")
        output = walk(ADMINISTRATOR, "Watching it", user="merkat")
        assert " merkatd[" in output["journalctl -u merkatd"]
        drained: list[str] = []
        shown = {
            "merkatd host maintenance HOST": lambda: drained.append(lite.merkatd("list hosts"))
        }
        walk(ADMINISTRATOR, "Maintenance of hosts", user="merkat", then=shown)
        assert "drain" in drained[0]
        until(lambda: "drain" not in lite.merkatd("list hosts"), "it is used again")

    def test_a_tenant_bids(self, lite: Machine, cloud: tuple[int, Any]) -> None:
        """A tenant bids with the page's file, as `onevm update` would send it."""
        lite.reader.walk("tenant.md", "Say what a VM is worth to you")
        text = lite.system.ok("cat", "/root/bid.txt")
        assert cloud[1].one.vm.update(SESSION, 0, text, 1)[0] is True
        until(lambda: "cpu,4" in lite.merkatd(SHOWN), "it bids so much")

    def test_troubleshooting(self, lite: Machine, cloud: tuple[int, Any]) -> None:
        """The commands of each symptom work; a service that can't start gives the reason."""
        lite.go_on()
        lite.reader.names["PERIOD"] = str(lite.count("periods") - 1)
        output = {
            command: output
            for heading in TROUBLES
            for command, output in lite.reader.walk(TROUBLE, heading, user="merkat").items()
        }
        assert "active (running)" in output["systemctl status merkatd"]
        assert "The books balance" in output["merkatd status"]
        lite.system.put(
            "/etc/merkat/merkatd.toml", lite.config.replace("500ms", "soon"), mode="644"
        )
        assert lite.system.run("systemctl", "restart", "merkatd").code != 0
        assert "period.interval" in lite.log()
        lite.configure()
        lite.active()
        lite.reader.walk(TROUBLE, "I want to undo it all, now", user="merkat", typed=SURE)
        no_limits(cloud)
        lite.ended()

    def test_a_copy_of_sqlite_is_restored(self, lite: Machine, cloud: tuple[int, Any]) -> None:
        """The accounts are those of the copy; the daemon reads the present cloud."""
        books = Books(lite, cloud[1])
        lite.reader.walk(
            ADMINISTRATOR,
            "With SQLite",
            then={
                "cp -a /var/lib/merkat /var/backups/merkat": books.save,
                "systemctl start merkatd": books.work,
                "cp -a /var/backups/merkat /var/lib/merkat": books.restored,
            },
        )
        books.sound()

    def test_an_update_at_work(self, lite: Machine, cloud: tuple[int, Any]) -> None:
        """Installing over a running daemon starts the new version; limits stay."""
        first, tenants = lite.system.show("MainPID"), lite.count("tenants")
        limited(cloud)
        lite.offer("newer")
        lite.reader.command(INSTALL, APT)
        assert lite.system.show("ActiveState") == "active"
        assert lite.system.show("MainPID") not in {first, "0"}
        assert lite.system.show("NRestarts") == "0"
        lite.go_on()
        assert lite.count("tenants") == tenants
        assert len(quotas(cloud[1])) == VMS

    def test_removal_keeps_the_accounts(self, machine: Machine, cloud: tuple[int, Any]) -> None:
        """No limit, process or unit remains; every account does."""
        removed(machine, cloud)


class TestWithMariadb:
    """A backup and an upgrade, as the page describes them."""

    KIND = "mariadb"

    def test_it_is_installed_and_started(self, machine: Machine, cloud: tuple[int, Any]) -> None:
        """Only the administrator starts it; then VMs have limits, and commands show its state."""
        installed(machine, cloud)

    def test_a_dump_of_mariadb_is_restored(self, machine: Machine, cloud: tuple[int, Any]) -> None:
        """A dump of a running daemon restores the accounts; the daemon reads the present cloud."""
        books = Books(machine, cloud[1])

        def saved() -> None:
            books.save()
            books.work()

        machine.reader.walk(
            ADMINISTRATOR,
            "With MySQL or MariaDB",
            then={
                "mysqldump --single-transaction merkat > merkat.sql": saved,
                "mysql merkat < merkat.sql": books.restored,
            },
        )
        books.sound()

    def test_an_upgrade_by_the_page(self, machine: Machine) -> None:
        """The new version continues with the accounts of the old one."""
        tenants = machine.count("tenants")
        machine.offer("newer")

        def install() -> None:
            machine.reader.command(INSTALL, APT)
            machine.ended()

        machine.reader.walk(
            ADMINISTRATOR, "Upgrade", user="merkat", then={"systemctl stop merkatd": install}
        )
        assert machine.dpkg("--status", "merkat").count("+1\n") == 1
        machine.go_on()
        assert machine.count("tenants") == tenants

    def test_removal_keeps_the_accounts(self, machine: Machine, cloud: tuple[int, Any]) -> None:
        """No limit, process or unit remains; every account does."""
        removed(machine, cloud)
