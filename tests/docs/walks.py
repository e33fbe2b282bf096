"""Tests that run a page's commands for other programs and for whole systems.

Tests on real systems take commands from the page, a section with `walk` and a single command with
`standing`, and run them unchanged. They are listed here, so that `make test` finds commands that no
test runs, and listed commands that no page shows.
"""

from collections.abc import Mapping
from pathlib import Path

from tests.docs.pages import PAGES, bare, program
from tests.docs.sections import sections

Listed = Mapping[str, Mapping[str, tuple[str, ...]]]

WALKED: Listed = {
    "tests/real/test_install.py": {
        "install.md": (
            "Elsewhere",
            "2. The account",
            "3. The configuration",
            "4. The other scheduler",
            "5. A first look, and the start",
            "6. Maintenance",
            "8. Back again",
        ),
    },
    "tests/real/test_package_service.py": {
        "administrator.md": (
            "What will it do to my VMs?",
            "How do I stop it?",
            "How do I go back?",
            "The first week",
            "Changing the configuration",
            "Watching it",
            "Maintenance of hosts",
            "With SQLite",
            "With MySQL or MariaDB",
            "Upgrade",
        ),
        "tenant.md": ("Say what a VM is worth to you",),
        "troubleshooting.md": (
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
            "I want to undo it all, now",
        ),
    },
}
"""By test and page, the sections whose commands it runs, in order."""

ALONE: Listed = {
    "tests/real/test_package_service.py": {
        "install.md": (
            "apt install ./dist/merkat_*.deb",
            "apt remove merkat",
            "apt purge merkat",
        ),
    },
    "tests/real/made.py": {"install.md": ("make deb",)},
    "tests/real/test_demo.py": {"README.md": ("make demo",)},
    "tests/real/test_prometheus.py": {
        "metrics.md": (
            "curl http://127.0.0.1:9656/metrics",
            "curl http://127.0.0.1:9656/healthz",
            "promtool test rules dashboards/alerts_test.yml",
        ),
    },
    "tests/real/test_testbed.py": {
        "testbed.md": (
            "BASE=merkat-testbed-base docker-compose --profile embedded up --build",
            "docker-compose exec merkat merkatd top --config /etc/merkat/embedded.toml",
            "docker-compose --profile embedded down --volumes",
        ),
        "troubleshooting.md": (
            "virsh domjobinfo one-7",
            "virsh -c qemu+ssh://oneadmin@HOST/system list",
        ),
    },
    "tests/real/test_install.py": {
        "onegroup.md": ("ln -s /opt/merkat/bin/merkat-onegroup /usr/local/bin/",),
    },
}
"""By test and page, the commands that it runs without the rest of their section."""

LEFT: Mapping[str, str] = {
    **dict.fromkeys(("oneacl", "onecluster", "onehost", "oneuser", "onevm"), "needs an OpenNebula"),
    "python": "a part of what `make test`, `test-real`, `test-xen` or `bench` runs whole",
    "make bench": "takes many minutes, and a machine that does nothing else",
    "make check": "`make test` runs it beside the tests",
    "make compile": "`make test` begins with it",
    "make pictures": "tests/real/test_web.py photographs every screen in the same way",
    "make soak": "takes hours; `make test` runs the same a few times",
    "make test": "is the run that this is a part of",
    "make test-real": "is the run that the tests of WALKED are a part of",
    "make test-xen": "takes a machine of its own; tests/xen is all that it runs",
    "make venv": "every other target begins with it",
    "pip install 'merkat[kvm]'": "tests/real/test_package.py does it with a folder of wheels",
    "docker": "is only named: it is what a newer Docker has for docker-compose",
    "docker-compose config": "tests/real/test_testbed.py does it with every profile",
    "docker-compose --profile embedded up --build": "needs a registry; with BASE it is run",
    "docker-compose --profile embedded --profile grafana up --build": "needs a registry",
    'OPENNEBULA_REPOSITORY="deb [trusted=yes] URL stable opennebula"'
    " docker-compose --profile opennebula up --build": "needs OpenNebula's packages",
    "docker-compose -f docker-compose.yml -f testbed/kvm.yml --profile opennebula up --build": (
        "needs OpenNebula's packages"
    ),
    "apt install ./merkat-client_*_all.deb": (
        "needs root; tests/merkat/test_client_package.py unpacks the package and runs it"
    ),
    "make client": "tests/merkat/test_client_package.py runs the same script",
    "pip install ./merkat_client-*-py3-none-any.whl": (
        "needs a registry; tests/merkat/test_client_package.py installs the wheel alone"
    ),
    "testbed/base-image": "tests/real/made.py does it, into an archive that it keeps",
}
"""By program or command, the reason why no test runs it."""


def walk(page: str, heading: str) -> tuple[str, ...]:
    """Return a section's commands in order, without those left out or run alone."""
    return tuple(command for command in _section(page, heading) if not _elsewhere(page, command))


def left_out(page: str, heading: str) -> tuple[str, ...]:
    """Return the commands of a section that no test can run."""
    return tuple(command for command in _section(page, heading) if reason(command))


def standing(page: str, command: str) -> str:
    """Return the command, which the page must contain."""
    there = {command for several in sections(_page(page)).values() for command in several}
    assert command in there, f"{page} has no {command!r}"
    return command


def reason(command: str) -> str:
    """Return the reason why no test runs the command, or ""."""
    return LEFT.get(command) or LEFT.get(program(bare(command)), "")


def _section(page: str, heading: str) -> tuple[str, ...]:
    commands_below = sections(_page(page)).get(heading, ())
    assert commands_below, f"{page} has no commands below {heading!r}"
    return commands_below


def _page(name: str) -> Path:
    (only_page,) = (page for page in PAGES if page.name == name)
    return only_page


def _elsewhere(page: str, command: str) -> bool:
    return bool(reason(command)) or any(command in pages.get(page, ()) for pages in ALONE.values())
