"""Commands trust a server like the daemon does: by the configured authorities."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from merkatd.cli import main
from merkatd.opennebula.preflight.inquiry import CallRefusedError, calling
from tests.embedded.support import ADMIN
from tests.opennebula.test_https import Authority, Server
from tests.opennebula.worlds import RealTime

CONFIG = """
[cloud]
kind = "opennebula"
endpoint = "{endpoint}"
auth_file = "{folder}/one_auth"
authorities = "{folder}/{authorities}.pem"

[market.default]
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Yield an https server, with files of its authority and a foreign one."""
    authority, time = Authority(), RealTime()
    (tmp_path / "ours.pem").write_bytes(authority.pem)
    (tmp_path / "stranger.pem").write_bytes(Authority("stranger").pem)
    (tmp_path / "empty.pem").touch()
    (tmp_path / "identity.pem").write_bytes(authority.server("127.0.0.1"))
    (tmp_path / "one_auth").write_text(ADMIN)
    started = Server(time, tmp_path / "identity.pem")
    yield started
    started.stop()
    time.close()


def test_a_server_of_the_configured_authority_is_called(server: Server, tmp_path: Path) -> None:
    """The system's authorities alone would not accept it."""
    with calling(server.endpoint, ADMIN, 5.0, tmp_path / "ours.pem") as call:
        assert call("one.system.version") == "7.4.0"


@pytest.mark.parametrize("name", [None, "stranger"])
def test_a_server_of_an_unknown_authority_is_not_called(
    server: Server, tmp_path: Path, name: str | None
) -> None:
    """It never receives the password."""
    authorities = None if name is None else tmp_path / f"{name}.pem"
    server_calls = calling(server.endpoint, ADMIN, 5.0, authorities)
    with server_calls as call, pytest.raises(OSError, match="certificate verify failed"):
        call("one.system.version")
    assert server.calls == 0


@pytest.mark.parametrize(
    ("name", "why"),
    [("empty", "contains no certificate"), ("nobody", "can't be read: No such file")],
)
def test_an_invalid_file_of_authorities_is_an_error(tmp_path: Path, name: str, why: str) -> None:
    """Nothing is sent before."""
    (tmp_path / "empty.pem").touch()
    calls = calling("https://127.0.0.1:1/", ADMIN, 5.0, tmp_path / f"{name}.pem")
    with pytest.raises(CallRefusedError, match=f"{name}.pem: {why}"):
        calls.__enter__()


@pytest.mark.parametrize(
    ("authorities", "message"),
    [("ours", "an answer is not XML"), ("stranger", "certificate verify failed")],
)
def test_merkatd_check_uses_the_configured_authorities(
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    authorities: str,
    message: str,
) -> None:
    """A server of another authority is not called."""
    text = CONFIG.format(endpoint=server.endpoint, folder=tmp_path, authorities=authorities)
    (tmp_path / "merkatd.toml").write_text(text)
    assert main(["check", "--config", str(tmp_path / "merkatd.toml")]) == 1
    assert message in capsys.readouterr().err
    assert (server.calls > 0) == (authorities == "ours")
