"""The pages' commands run as shown, in order, on a daemon."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.asking import Daemon, Shell
from tests.docs.pages import PAGES, ROOT, blocks, inline, program, words
from tests.docs.test_commands import RUN_BY, each

ADMINISTRATORS = ("administrator.md", "troubleshooting.md", "install.md", "commands.md")
OTHERS = (
    "concepts.md",
    "configuration.md",
    "design.md",
    "metrics.md",
    "snapshot.md",
    "strategies.md",
    "testing.md",
    "utility.md",
    "README.md",
    "CONTRIBUTING.md",
)
NONE = (
    *("controllers.md", "dependencies.md", "embedded.md", "experiments.md", "requirements.md"),
    *("tenant.md", "testbed.md", "web.md", "xmlrpc.md"),
    *("decentralized-paper.md", "merkat-paper.md", "proportional-share-paper.md"),
    "utility-placement-paper.md",
)
"""Pages whose commands of merkatd run elsewhere, or that have none."""

ELSEWHERE = {
    "run": "tests/daemon runs it",
    "demo": "tests/demo runs it",
    "embedded": "tests/embedded runs it",
    "experiment": "tests/simulator runs it",
    "platform": "tests/commands/test_platform_page.py runs it: it needs a platform",
    "budget": "tests/commands/test_money.py runs it: it needs an application",
    "driver": "tests/opennebula/driver/test_script.py runs it: it writes into an OpenNebula",
    "check": "tests/opennebula/driver asks an OpenNebula; here the file alone is checked",
}
"""Commands that these tests do not run, with the reason; all others run."""
REVERSAL = ["plan", "reverse"]
"""tests/modes/test_reversal.py runs it: it needs an executed plan with migrations."""
OF_APPLICATION = ["explain", "application"]
"""tests/commands/test_explain_application.py runs it: it needs an application."""

_NAMES = (
    *("bid", "budget", "completion", "explain", "order", "platform", "quote", "snapshot"),
    "tenant",
)
ALONE = [[name] for name in _NAMES]
"""In sentences these are only names."""
OF_A_DEMO = "/tmp/merkat-demo-"  # noqa: S108 - as the demo says it
"""The demo's own daemon answers these in tests/demo."""
LOOKS = frozenset(
    {"check", "completion", "explain", "list", "log", "manual", "price", "status", "top"}
)
"""Commands that change nothing; after the others, a period restores what they changed."""
MORE = {"top": ["--once"], "release": ["--yes"]}
"""Options that replace a terminal."""


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Daemon]:
    """Yield a daemon with two hosts, running VMs, and one VM that does not fit."""
    made = Daemon()
    for number in range(3):
        made.frontend.vm(1.0 + number, VCPU=4, NAME=f"web-{number}")
    made.frontend.vm(3.0, NAME="big", MEMORY=20_000, MERKAT_MIN_MEMORY=10_000)
    made.period(3)
    monkeypatch.setattr("merkatd.commands.socket_door.ask", made.ask)
    monkeypatch.setattr(
        "merkatd.commands.decisions.host_command.sleep", lambda _seconds: made.period()
    )
    monkeypatch.chdir(tmp_path)
    made.answer("snapshot")
    (tmp_path / "docs").mkdir()
    for name in ("FILE", "cloud.json", "docs/example.json"):
        (tmp_path / name).write_text((ROOT / "docs/example.json").read_text())
    yield made
    made.frontend.close()


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return a shell whose output is a pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
    return Shell(capsys)


def commands(page: Path) -> list[list[str]]:
    """Return all commands of merkatd, each once: those in blocks, then those in sentences."""
    commands_below = [
        command
        for block in blocks(page)
        for command in block.commands
        if program(command) == "merkatd"
    ]
    typed = [
        words(command)
        for command in [*commands_below, *inline(page)]
        if program(command) == "merkatd"
    ]
    given = [command for several in typed for command in each(several) if command not in ALONE]
    return [command for at, command in enumerate(given) if command not in given[:at]]


@pytest.mark.parametrize("name", [*ADMINISTRATORS, *OTHERS])
def test_every_command_works(name: str, daemon: Daemon, shell: Shell) -> None:
    """Each command runs as shown, with the existing names of VMs, hosts and tenants."""
    ran = 0
    for typed in run_here(name):
        prepare(daemon, typed)
        done = shell(*typed, *MORE.get(typed[0], []))
        assert done.code == 0, (typed, done)
        assert done.out, typed
        ran += 1
        if typed[0] not in LOOKS:
            daemon.answer("resume")
            daemon.period()
    assert ran > (5 if name in ADMINISTRATORS else 0)


def run_here(name: str) -> Iterator[list[str]]:
    """Yield the commands of a page that no other test runs."""
    (page,) = (page for page in PAGES if page.name == name)
    for typed in commands(page):
        elsewhere = typed[0] in ELSEWHERE and typed[1:] != ["--offline"]
        elsewhere = elsewhere or typed[:2] in (REVERSAL, OF_APPLICATION)
        if not elsewhere and not typed[-1].startswith(OF_A_DEMO):
            yield typed


def test_every_page_is_covered() -> None:
    """A page is run here or by the named test, or has no commands."""
    there = {page.name for page in PAGES}
    assert there == {*ADMINISTRATORS, *OTHERS, *NONE, *RUN_BY}
    assert not [name for name in NONE if list(run_here(name))]


def prepare(daemon: Daemon, typed: list[str]) -> None:
    """Create what a command refers to, as its reader would have it."""
    if typed[0] == "plan" and typed[1:2] and typed[1] in {"show", "approve", "refuse"}:
        daemon.answer("mode", to="ask")
        for number in range(2):
            daemon.frontend.vm(1.0, MEMORY=64, NAME=f"new-{number}")
        daemon.period()
    elif typed[:2] == ["host", "maintenance"]:
        daemon.answer("mode", to="on")
    elif typed[0] == "shadow":
        daemon.answer("mode", to="shadow")
        daemon.period(2)
    elif typed[0] == "tenant" and typed[1] == "refund":
        daemon.period(2)


def test_commands_run_elsewhere_name_their_test() -> None:
    """Each reason names an existing test."""
    for why in ELSEWHERE.values():
        assert (ROOT / why.split()[0].rstrip(";:")).exists(), why
