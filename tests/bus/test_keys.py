"""Keys: kept in secret, the same at each start."""

from pathlib import Path

import pytest

from merkatd.protocol.curve_keys import FILE, Passport, daemon_keys, fresh


def test_the_daemons_key_is_the_same_at_each_start(tmp_path: Path) -> None:
    """And nobody else can read it."""
    first = daemon_keys(tmp_path)
    assert daemon_keys(tmp_path) == first
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    """Whoever has it could pass for the daemon."""
    daemon_keys(tmp_path)
    (tmp_path / FILE).chmod(0o640)
    with pytest.raises(PermissionError, match="0600"):
        daemon_keys(tmp_path)


@pytest.mark.parametrize("text", ["", "short", "\N{SNOWMAN}" * 40, "x" * 41])
def test_a_broken_key_is_said_to_be_one(tmp_path: Path, text: str) -> None:
    """And what to do about it."""
    daemon_keys(tmp_path)
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match="remove it"):
        daemon_keys(tmp_path)


def test_no_secret_is_shown() -> None:
    """Neither in a log nor in an error."""
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
