"""A deadline application on the embedded cloud, with the template for real hosts."""

import json
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from merkatd import cli
from tests.daemon.processes import Program, until

TEMPLATE = Path(__file__).with_name("heat.toml")
STEPS = 200
_DAEMON = """
[daemon]
state_directory = "{directory}/state"
[period]
interval = "2s"
settle = "50ms"
[cloud]
kind = "embedded"
hosts = 1
host_cores = 2
host_memory = "2GiB"
speed = 2
[api]
enabled = false
[web]
enabled = false
[bus]
beat = "500ms"
"""


class Site:
    """A daemon with its own cloud, and a user of its commands."""

    def __init__(self, directory: Path, output: pytest.CaptureFixture[str]) -> None:
        self._configuration = directory / "merkatd.toml"
        self._state = directory / "state"
        self._output = output
        self._configuration.write_text(_DAEMON.format(directory=directory))
        self.daemon = Program(directory / "daemon.log", "run", "--config", str(self._configuration))

    def command(self, *words: str) -> str:
        """Return the output of a command, which must succeed."""
        code = cli.main([*words, "--config", str(self._configuration)])
        printed = self._output.readouterr()
        assert code == 0, (words, printed.err, self.daemon.output())
        return printed.out

    def answers(self) -> bool:
        """Return whether the daemon answers."""
        code = cli.main(["status", "--config", str(self._configuration)])
        self._output.readouterr()
        assert self.daemon.running, self.daemon.output()
        return code == 0

    def tenant(self, name: str) -> str:
        """Create a user with credits and return its id."""
        session = (self._state / "one_auth").read_text().strip()
        with xmlrpc.client.ServerProxy((self._state / "one_xmlrpc").read_text().strip()) as cloud:
            answer: Any = cloud.one.user.allocate(session, name, "secret", "core")
        assert answer[0], answer
        owner = str(answer[1])
        until(lambda: owner in self.command("tenant", "list"), "a tenant", tick_s=0.2)
        self.command("tenant", "weight", owner, "1")
        return owner

    def submit(self, template: Path, owner: str) -> str:
        """Submit a platform and return its id."""
        self.command("platform", "submit", str(template), "--tenant", owner)
        (row,) = json.loads(self.command("platform", "list", "--json"))
        return str(row["id"])

    def platform(self, platform: str) -> dict[str, Any]:
        """Return the details of a platform."""
        row: dict[str, Any] = json.loads(self.command("platform", "show", platform, "--json"))
        return row


@pytest.fixture
def site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Site]:
    """Return a site with one host of two cores."""
    new_site = Site(tmp_path, capsys)
    try:
        until(new_site.answers, "the daemon answers", tick_s=0.2)
        yield new_site
    finally:
        new_site.daemon.kill()


def test_the_tenant_reads_that_the_deadline_holds_and_it_does(site: Site) -> None:
    """Cloud, controller and monitor are real; one screen shows all."""
    ann = site.tenant("ann")
    heat = site.submit(TEMPLATE, ann)
    until(lambda: (site.platform(heat)["done"] or 0.0) > 0.2, "a fifth is made", tick_s=0.2)

    def sure() -> bool:
        shown = site.command("platform", "show", heat)
        return "On track: expected to end" in shown and f"of {STEPS} iterations" in shown

    until(sure, "on track", tick_s=0.2)
    # After its deadline it would have failed.
    until(lambda: site.platform(heat)["state"] in {"done", "failed"}, "the end", tick_s=0.2)
    row = site.platform(heat)
    assert row["state"] == "done", site.command("platform", "show", heat)
    assert 0.0 < row["spent"] < row["budget"]
