"""Sources of login and address: the configuration, then OpenNebula's own places."""

from pathlib import Path

import pytest

from merkatd.opennebula.rpc.credentials import (
    DEFAULT_ENDPOINT,
    LoginError,
    auth_file,
    endpoint,
    login_from,
)


def test_the_login_file_is_found(tmp_path: Path) -> None:
    """It is the configured one, then ONE_AUTH's, then the one in the home folder."""
    ours = tmp_path / "ours"
    assert auth_file(ours, {"ONE_AUTH": "/theirs"}, tmp_path) == ours
    assert auth_file(None, {"ONE_AUTH": "/theirs"}, tmp_path) == Path("/theirs")
    assert auth_file(None, {"ONE_AUTH": ""}, tmp_path) == tmp_path / ".one" / "one_auth"


def test_the_address_is_found(tmp_path: Path) -> None:
    """It is the configured one, then ONE_XMLRPC, one_endpoint, and the default."""
    home, environment = tmp_path / "home", {"ONE_XMLRPC": "http://b:1/RPC2"}
    assert endpoint("http://a:1/RPC2", environment, home) == "http://a:1/RPC2"
    assert endpoint("", environment, home) == "http://b:1/RPC2"
    assert endpoint("", {}, home) == DEFAULT_ENDPOINT
    (home / ".one").mkdir(parents=True)
    (home / ".one" / "one_endpoint").write_text("https://c/RPC2\n")
    assert endpoint("", {}, home) == "https://c/RPC2"


@pytest.mark.parametrize("text", ["merkat:hush", "merkat:hush\n", "merkat:hush:b\nrest\n"])
def test_a_login_is_the_first_line(tmp_path: Path, text: str) -> None:
    """It stores its origin, and does not show its secret."""
    path = tmp_path / "one_auth"
    path.write_text(text)
    login = login_from(path)
    assert login.session == text.splitlines()[0]
    assert login.origin == str(path)
    assert "hush" not in repr(login).replace(login.origin, "")


@pytest.mark.parametrize("text", ["", "\n", "merkat", "merkat:", ":hush"])
def test_an_invalid_login_is_an_error(tmp_path: Path, text: str) -> None:
    """The error has the file and the accepted form, and not the content."""
    path = tmp_path / "one_auth"
    path.write_text(text)
    with pytest.raises(LoginError, match="one_auth: expected a line user:password") as raised:
        login_from(path)
    assert "hush" not in str(raised.value).replace(str(path), "")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """A file that is not text is an error too."""
    with pytest.raises(LoginError, match="nowhere: the login can't be read: No such file"):
        login_from(tmp_path / "nowhere")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe:")
    with pytest.raises(LoginError, match="bytes: the login can't be read: it is not text"):
        login_from(tmp_path / "bytes")
