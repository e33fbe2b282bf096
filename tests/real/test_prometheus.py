"""Debian's Prometheus reads a running daemon: the queries of dashboards and alerts have data."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xmlrpc.client
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.api.metrics.test_dashboards import DASHBOARDS, RULES, panels
from tests.controllers.monitors.sshd import free_port
from tests.docs.walks import standing
from tests.real.host import ROOT, until

_CONFIG = """\
[daemon]
state_directory = "{state}"
[cloud]
hosts = 3
[period]
interval = "1s"
least_interval = "0.5s"
[metrics]
enabled = true
"""
_SCRAPE = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: merkat
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
PORT = 9656
"""The port in the page."""
PAGE = "metrics.md"
_SCRAPES_S = 5.0
"""The least time of scrapes, in seconds, from which Prometheus computes a rate."""
_VARIABLES = {"market": ".*", "group": "oneadmin"}


class Prometheus:
    """A Prometheus of the tests, which runs until it is closed."""

    def __init__(self, directory: Path, target: int) -> None:
        self._port = free_port()
        rules = directory / "alerts.yml"
        # The rules are unchanged, apart from their waiting times.
        rules.write_text(re.sub(r"for: \w+", "for: 1s", RULES.read_text()))
        config = directory / "prometheus.yml"
        config.write_text(_SCRAPE.format(rules=rules, port=target))
        self.log = directory / "prometheus.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={config}",
                    f"--storage.tsdb.path={directory / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def get(self, path: str, **words: str) -> Any:
        """Return an answer of its HTTP interface."""
        address = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                reply = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                pytest.fail(f"{words}: {error.read().decode()}")
        assert reply["status"] == "success", reply
        return reply["data"]

    def ask(self, query: str) -> list[Any]:
        """Return the present series of an expression."""
        samples: list[Any] = self.get("query", query=query)["result"]
        return samples

    def up(self) -> bool:
        """Return whether Prometheus answers and reads the daemon."""
        try:
            return [sample["value"][1] for sample in self.ask('up{job="merkat"}')] == ["1"]
        except OSError:
            assert self._process.poll() is None, self.log.read_text()
            return False

    def firing(self) -> set[str]:
        """Return the alerts that fire."""
        alerts = self.get("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def judged(self) -> list[Any]:
        """Return the rules, once each has been evaluated."""
        (group,) = self.get("rules")["groups"]
        rules: list[Any] = group["rules"]
        return [] if any(rule["health"] == "unknown" for rule in rules) else rules

    def close(self) -> None:
        """End Prometheus."""
        self._process.terminate()
        self._process.wait()


class Merkat:
    """A running daemon with placed VMs, of which some had to migrate."""

    def __init__(self, directory: Path) -> None:
        self.port = PORT
        self._state, self._log = directory / "state", directory / "daemon.log"
        file = directory / "merkatd.toml"
        file.write_text(_CONFIG.format(state=self._state))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "merkatd.cli", "run", "--config", str(file)],
                cwd=ROOT,
                env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def work(self) -> None:
        """Create VMs, and make one leave its host."""
        self._until_logged("/metrics")
        session = (self._state / "one_auth").read_text().strip()
        with xmlrpc.client.ServerProxy((self._state / "one_xmlrpc").read_text().strip()) as proxy:
            cloud: Any = proxy
            for number in range(6):
                answer = cloud.one.vm.allocate(session, _vm(number), False)
                assert answer[0] is True, answer
            self._until_logged("6 VMs on 3 hosts, 0 steps sent")
            until(lambda: cloud.one.vm.action(session, "resched", 0)[0], "VM 0 runs")
            self._until_logged(r"migrate of VM \d+: accepted")

    def close(self) -> None:
        """Kill the daemon, as a power cut would."""
        self._process.kill()
        self._process.wait()

    def _until_logged(self, what: str) -> None:
        def has_text() -> bool:
            log = self._log.read_text()
            assert self._process.poll() is None, log
            return re.search(what, log) is not None

        until(has_text, f"{what!r} said")


def _vm(number: int) -> str:
    return (
        f'NAME="vm{number}" CPU="0.5" VCPU="1" MEMORY="512"'
        f' MERKAT_BID_CPU="{number + 1}" MERKAT_BID_MEMORY="1"'
    )


def substituted(expression: str) -> str:
    """Return a query with the values that Grafana would insert."""
    for name, value in _VARIABLES.items():
        expression = expression.replace(f"${name}", value)
    assert "$" not in expression
    return expression


def test_prometheus_reads_what_dashboards_and_alerts_ask_for(tmp_path: Path) -> None:
    """Each panel has data, each alert can be evaluated, and one fires once the daemon is killed."""
    with (
        closing(Merkat(tmp_path)) as daemon,
        closing(Prometheus(tmp_path, daemon.port)) as prometheus,
    ):
        daemon.work()
        until(prometheus.up, "the daemon is read")
        assert "\nmerkat_build_info{" in typed("curl http://127.0.0.1:9656/metrics")
        assert typed("curl http://127.0.0.1:9656/healthz").strip() == "ok: acting"
        moved = 'merkat_moves_total{result="confirmed"} > 0'
        until(lambda: prometheus.ask(moved), "moves are counted")
        ending = time.monotonic() + _SCRAPES_S
        until(lambda: time.monotonic() > ending, "enough for a rate")
        for dashboard in DASHBOARDS:
            for panel in panels(dashboard):
                for target in panel.get("targets", []):
                    query = substituted(target["expr"])
                    until(partial(prometheus.ask, query), f"{panel['title']}: {query}")
            *_, variable = json.loads(dashboard.read_text())["templating"]["list"]
            match = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"])
            assert match is not None
            values = prometheus.get(f"label/{match[2]}/values", **{"match[]": match[1]})
            assert [value for value in values if re.fullmatch(_VARIABLES[variable["name"]], value)]
        until(prometheus.judged, "each rule was judged")
        rules = prometheus.judged()
        assert len(rules) == RULES.read_text().count("- alert:")
        assert {rule["health"] for rule in rules} == {"ok"}, rules
        for rule in rules:
            prometheus.ask(rule["query"])
        assert "MerkatDown" not in prometheus.firing()
        daemon.close()
        until(lambda: "MerkatDown" in prometheus.firing(), "somebody is told")


def test_alerts_fire_when_they_should() -> None:
    """The page's promtool command passes: alerts fire at the expected minutes."""
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True)
    assert "SUCCESS" in typed("promtool test rules dashboards/alerts_test.yml")


def typed(command: str) -> str:
    """Return the output of a command of the page, run in the checkout."""
    words = ["bash", "-c", standing(PAGE, command)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
