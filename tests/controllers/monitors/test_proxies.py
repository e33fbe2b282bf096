"""The monitor of requests with a real HAProxy and a real nginx, where they are installed."""

import http.client
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from controllers.monitors.traffic import haproxy_stats
from tests.controllers.monitors.request_watch import KEYS, Watch
from tests.controllers.monitors.sshd import SSHD, Sshd, free_port, running

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = pytest.mark.skipif(SSHD is None, reason="there is no sshd")
_READY_S: Final = 20.0
_WORK_S: Final = 0.05

_HAPROXY: Final = """\
global
  stats socket {directory}/admin.sock mode 600
defaults
  mode http
  timeout connect 5s
  timeout client 20s
  timeout server 20s
frontend web
  bind 127.0.0.1:{port}
  default_backend app
backend app
  server one 127.0.0.1:{application}
frontend stats
  bind 127.0.0.1:{stats}
  stats enable
  stats uri /stats
"""
_NGINX: Final = """\
daemon off;
pid {directory}/nginx.pid;
error_log stderr;
{user}
events {{ }}
http {{
  {log_format}
  access_log {directory}/access.log merkat;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://127.0.0.1:{application}; }}
  }}
}}
"""


def log_format() -> str:
    """Return the `log_format` that the tenants' page documents."""
    page = Path(__file__).parents[3] / "docs/platforms.md"
    start = (text := page.read_text()).index("log_format merkat")
    return text[start : text.index(";", start) + 1]


class Application(BaseHTTPRequestHandler):
    """A web application that takes 50 ms for an answer; /fail fails."""

    protocol_version = "HTTP/1.1"
    pause = threading.Event()

    def do_GET(self) -> None:
        """Answer."""
        self.pause.wait(_WORK_S)
        self.send_response(500 if self.path == "/fail" else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *words: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def application() -> Iterator[int]:
    """Return the port of the application behind the proxies."""
    ThreadingHTTPServer.daemon_threads = True
    with ThreadingHTTPServer(("127.0.0.1", 0), Application) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def sshds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Sshd]]:
    """Return a VM that no test changes."""
    if SSHD is None:
        pytest.skip("there is no sshd")
    with running(tmp_path_factory.mktemp("sshd"), KEYS, 1) as servers:
        yield servers


def send(port: int, paths: list[str], pause_s: float = 0.0) -> None:
    """Request these paths over one connection, with pauses in between."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_READY_S)
    for path in paths:
        connection.request("GET", path, headers={"User-Agent": '" rt=99.000'})
        connection.getresponse().read()
        Application.pause.wait(pause_s)
    connection.close()


Start = Callable[[list[str], int], subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a proxy and waits until it answers at its port."""
    started: list[subprocess.Popen[bytes]] = []

    def starting(command: list[str], port: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        started.append(process)
        ending_s = time.monotonic() + _READY_S
        while True:
            try:
                send(port, ["/ready"])
            except OSError:
                assert process.poll() is None, command
                assert time.monotonic() < ending_s, command
                Application.pause.wait(0.01)
            else:
                return process

    yield starting
    for process in started:
        process.terminate()
        process.wait(_READY_S)


@pytest.mark.skipif(HAPROXY is None, reason="there is no haproxy")
class TestHaproxy:
    @pytest.fixture
    def command(self, tmp_path: Path) -> list[str]:
        """Return the command that starts a HAProxy."""
        assert HAPROXY is not None
        return [HAPROXY, "-db", "-f", str(tmp_path / "haproxy.cfg")]

    @pytest.fixture
    def ports(self, tmp_path: Path, application: int) -> tuple[int, int]:
        """Return the ports of a HAProxy and of its statistics page."""
        port, stats = free_port(), free_port()
        (tmp_path / "haproxy.cfg").write_text(
            _HAPROXY.format(directory=tmp_path, port=port, stats=stats, application=application)
        )
        return port, stats

    @pytest.mark.parametrize("way", ["socat", "perl", "curl", "wget"])
    def test_its_counters_are_read(
        self,
        tmp_path: Path,
        sshds: list[Sshd],
        start: Start,
        command: list[str],
        ports: tuple[int, int],
        way: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The time is that of the application, without the pauses of an open connection."""
        start(command, ports[0])
        place = {"socket": str(tmp_path / "admin.sock")}
        if way in {"curl", "wget"}:
            place = {"url": f"http://127.0.0.1:{ports[1]}/stats;csv"}
        if shutil.which(way) is None:
            pytest.skip(f"there is no {way}")
        if way == "wget":
            without = haproxy_stats._PAGE.replace("command -v curl", "false")
            monkeypatch.setattr(haproxy_stats, "_PAGE", without)
        if way == "perl":
            without = haproxy_stats._SOCKET.replace("command -v socat", "false")
            monkeypatch.setattr(haproxy_stats, "_SOCKET", without)
        watch = Watch(tmp_path, sshds, 1, source="haproxy", frontend="web", **place)
        try:
            assert watch.look() == {"answering": 1.0}
            send(ports[0], ["/"] * 17 + ["/fail"] * 3, pause_s=0.1)
            values = watch.look(10.0)
        finally:
            watch.probe.close()
        assert values["arrivals_per_s"] == values["throughput_per_s"] == 2.0
        assert values["failures_per_s"] == pytest.approx(0.3)
        assert _WORK_S * 0.98 <= values["response_s"] < _WORK_S + 0.05

    def test_a_reload_begins_anew(
        self,
        tmp_path: Path,
        sshds: list[Sshd],
        start: Start,
        command: list[str],
        ports: tuple[int, int],
    ) -> None:
        """The new process has counted more than the old one."""
        first = start(command, ports[0])
        place = str(tmp_path / "admin.sock")
        watch = Watch(tmp_path, sshds, 1, source="haproxy", frontend="web", socket=place)
        try:
            watch.look()
            send(ports[0], ["/"] * 2)
            assert watch.look(10.0)["arrivals_per_s"] == 0.2
            start([*command, "-sf", str(first.pid)], ports[0])
            first.wait(_READY_S)
            send(ports[0], ["/"] * 8)
            assert watch.look(60.0) == {"answering": 1.0}
            send(ports[0], ["/"] * 4)
            assert watch.look(10.0)["arrivals_per_s"] == 0.4
        finally:
            watch.probe.close()


@pytest.mark.skipif(NGINX is None, reason="there is no nginx")
def test_requests_in_the_log_of_nginx_are_read(
    tmp_path: Path, sshds: list[Sshd], start: Start, application: int
) -> None:
    """Each counts once across a rotation; the format is the documented one."""
    assert NGINX is not None
    port, config = free_port(), tmp_path / "nginx.conf"
    config.write_text(
        _NGINX.format(
            directory=tmp_path,
            port=port,
            application=application,
            log_format=log_format(),
            user="user root;" if os.geteuid() == 0 else "",
        )
    )
    process = start([NGINX, "-c", str(config), "-e", "stderr"], port)
    log = tmp_path / "access.log"
    watch = Watch(tmp_path, sshds, 1, source="nginx", log=str(log))
    try:
        assert watch.look() == {"answering": 1.0}
        send(port, ["/"] * 20, pause_s=0.02)
        send(port, ["/fail"] * 5)
        log.rename(f"{log}.1")
        process.send_signal(signal.SIGUSR1)
        ending_s = time.monotonic() + _READY_S
        while not log.exists():
            assert time.monotonic() < ending_s
            Application.pause.wait(0.01)
        # A connection that is new reaches a worker that has opened the new log.
        send(port, ["/"] * 15)
        values = watch.look(10.0)
    finally:
        watch.probe.close()
    assert values["arrivals_per_s"] == values["throughput_per_s"] == 4.0
    assert (values["failures_per_s"], values["unread_per_s"]) == (0.5, 0.0)
    for name in ("response_s", "response_p50_s", "response_p95_s", "response_p99_s"):
        assert _WORK_S * 0.98 <= values[name] < _WORK_S + 0.1
