"""Files written whole or not at all, and files for their owner alone."""

import os
from pathlib import Path

from merkatd.daemon.errors import StartError
from merkatd.protocol.guest_keys import GuestKeys, guest_keys


def written(path: Path, text: str, mode: int = 0o600) -> None:
    """Write beside the file and rename: a full disk or a kill leaves no half of it."""
    half = path.with_name(f"{path.name}.new")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    half.rename(path)


def once_written(path: Path, text: str) -> str:
    """Return what the file says; this text where it is not there, or empty. Raises StartError."""
    try:
        said = path.read_text().strip() if path.exists() else ""
    except UnicodeDecodeError:
        raise StartError(f"{path} holds no text; remove it, and a new one is made") from None
    if not said:
        written(path, text)
        said = text.strip()
    return said


def keys_of(directory: Path) -> GuestKeys:
    """Return the keys of the site's guests. Raises StartError where their secret is spoiled."""
    try:
        return guest_keys(directory)
    except ValueError as error:
        raise StartError(str(error)) from None
