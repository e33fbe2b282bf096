"""The page while its daemon is away, and its content after a restart."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from merkatd import cli
from tests.api.xmlrpc.site import ANN, Site, until
from tests.daemon.processes import Program
from tests.real.web.chromium import Chromium
from tests.web.browser import Browser

_LEAST_PERIODS = 8


def a_free_port() -> int:
    """Return a port on which no program listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def begun_again(site: Site) -> Iterator[None]:
    """Start another daemon on the first one's state."""
    config = str(site.folder / "merkatd.toml")
    site.program = Program(site.folder / "log-2", "run", "--config", config, main=cli.main)
    try:
        yield
    finally:
        site.end()


def test_the_page_reports_a_missing_daemon_and_the_next_one_has_the_history(tmp_path: Path) -> None:
    """Users sign in again; charts show earlier periods, and say which values are missing."""
    address = f"http://127.0.0.1:{(port := a_free_port())}/"
    site = Site(tmp_path, f"[web]\nport = {port}")
    with Chromium(tmp_path / "profile") as chromium:
        try:
            until(lambda: (site.period() or 0) >= _LEAST_PERIODS, "some periods")
            chromium.sign_in(address, ANN)
            chromium.go(f"{address}vms/0")
            chromium.there(".uplot", "charts")
            last = site.period()
            assert last is not None
        finally:
            site.end()
        chromium.until("document.getElementById('said').textContent", "a word that it is away")
        with begun_again(site):
            until(lambda: (site.period() or 0) > last + 2, "periods of the next daemon")
            chromium.until("location.pathname === '/sign-in'", "the form to sign in")
            ann = Browser(address)
            ann.sign_in(ANN)
            vm = ann.get("/vms/0")
            began = vm.text.partition("is known from period ")[2].partition(" ")[0]
            assert last <= int(began) <= last + 3
            gets = vm.charts["charts"][0]["lines"][0]
            assert gets["name"] == "gets"
            assert vm.charts["period"][0] < last
            assert None not in gets["values"]
            tenant = ann.get(f"/tenants/{site.users['ann']}").charts
            assert tenant["period"][0] < last
            titles = {chart["title"] for chart in tenant["charts"]}
            assert titles == {"Money", "CPU", "Memory", "Credits"}
            host = ann.get("/hosts/0")
            assert host.charts["period"][0] == int(began)
            assert f"The set of VMs on a host is known from period {began} on" in host.text
