"""Where the login and the address come from: the configuration, then OpenNebula's own places."""

from pathlib import Path

import pytest

from merkatd.opennebula.rpc.credentials import (
    DEFAULT_ENDPOINT,
    LoginError,
    auth_file,
    endpoint,
    login_from,
)


def test_the_login_file(tmp_path: Path) -> None:
    """The configured one, else what ONE_AUTH names, else the one in the home folder."""
    ours = tmp_path / "ours"
    assert auth_file(ours, {"ONE_AUTH": "/theirs"}, tmp_path) == ours
    assert auth_file(None, {"ONE_AUTH": "/theirs"}, tmp_path) == Path("/theirs")
    assert auth_file(None, {"ONE_AUTH": ""}, tmp_path) == tmp_path / ".one" / "one_auth"


def test_the_address(tmp_path: Path) -> None:
    """The configured one, else ONE_XMLRPC, else one_endpoint, else the usual one."""
    home, environment = tmp_path / "home", {"ONE_XMLRPC": "http://b:1/RPC2"}
    assert endpoint("http://a:1/RPC2", environment, home) == "http://a:1/RPC2"
    assert endpoint("", environment, home) == "http://b:1/RPC2"
    assert endpoint("", {}, home) == DEFAULT_ENDPOINT
    (home / ".one").mkdir(parents=True)
    (home / ".one" / "one_endpoint").write_text("https://c/RPC2\n")
    assert endpoint("", {}, home) == "https://c/RPC2"


@pytest.mark.parametrize("text", ["merkat:hush", "merkat:hush\n", "merkat:hush:b\nrest\n"])
def test_a_login(tmp_path: Path, text: str) -> None:
    """The first line; it remembers where it was found, and does not show its secret."""
    path = tmp_path / "one_auth"
    path.write_text(text)
    login = login_from(path)
    assert login.session == text.splitlines()[0]
    assert login.origin == str(path)
    assert "hush" not in repr(login).replace(login.origin, "")


@pytest.mark.parametrize("text", ["", "\n", "merkat", "merkat:", ":hush"])
def test_what_is_no_login(tmp_path: Path, text: str) -> None:
    """The file is named, and what would be right; what stands there is not repeated."""
    path = tmp_path / "one_auth"
    path.write_text(text)
    with pytest.raises(LoginError, match="one_auth: expected a line user:password") as raised:
        login_from(path)
    assert "hush" not in str(raised.value).replace(str(path), "")


def test_no_file(tmp_path: Path) -> None:
    """It is named too, also where it is no text."""
    with pytest.raises(LoginError, match="nowhere: the login can't be read: No such file"):
        login_from(tmp_path / "nowhere")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe:")
    with pytest.raises(LoginError, match="bytes: the login can't be read: it is not text"):
        login_from(tmp_path / "bytes")
