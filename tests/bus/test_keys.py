"""Keys: stored privately, and the same at each start."""

from pathlib import Path

import pytest

from merkatd.protocol.curve_keys import FILE, Passport, daemon_keys, fresh


def test_the_daemons_key_is_the_same_at_each_start(tmp_path: Path) -> None:
    """Only the daemon's user can read the file."""
    first = daemon_keys(tmp_path)
    assert daemon_keys(tmp_path) == first
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_a_key_that_others_can_read_is_rejected(tmp_path: Path) -> None:
    """Anyone with the key could impersonate the daemon."""
    daemon_keys(tmp_path)
    (tmp_path / FILE).chmod(0o640)
    with pytest.raises(PermissionError, match="0600"):
        daemon_keys(tmp_path)


@pytest.mark.parametrize("text", ["", "short", "\N{SNOWMAN}" * 40, "x" * 41])
def test_a_damaged_key_is_an_error(tmp_path: Path, text: str) -> None:
    """The message names the remedy."""
    daemon_keys(tmp_path)
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match="remove it"):
        daemon_keys(tmp_path)


def test_secrets_are_never_printed() -> None:
    """Neither keys nor passports show the secret in logs or errors."""
    pair = fresh()
    passport = Passport(
        asking="a",
        listening="b",
        daemon="c",
        platform=1,
        market="m",
        role="d",
        public="e",
        secret=pair.secret,
    )
    assert pair.secret not in f"{pair} {passport}"
    assert Passport.read(passport.written()) == passport
