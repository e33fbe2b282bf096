"""A running daemon publishes metrics and reports its health."""

import re
import urllib.request
from pathlib import Path

from tests.daemon.processes import Program, until

CONFIG = """\
[daemon]
state_directory = "{state}"
[cloud]
hosts = 2
[period]
interval = "0.2s"
least_interval = "0.1s"
[metrics]
enabled = true
port = 0
"""


def read(address: str) -> str:
    """Return the page at an address."""
    with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - our own
        return str(answer.read().decode())


def test_metrics_of_a_daemon_are_served_over_http(tmp_path: Path) -> None:
    """The log names the address; the metrics increase with the periods."""
    file = tmp_path / "merkatd.toml"
    file.write_text(CONFIG.format(state=tmp_path / "state"))
    daemon = Program(tmp_path / "log", "run", "--config", str(file))
    try:
        daemon.until_output("/metrics")
        match = re.search(r"http://\S+/metrics", daemon.output())
        assert match is not None
        until(
            lambda: re.search(r'periods_total\{outcome="done"\} [2-9]', read(match[0])),
            "two periods counted",
        )
        assert "merkat_cpu_capacity_cores" in read(match[0])
        assert read(match[0].replace("metrics", "healthz")) == "ok: acting\n"
    finally:
        daemon.kill()
