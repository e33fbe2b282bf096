"""Files written whole or not at all, and files for their owner alone."""

import os
import stat
from contextlib import suppress
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


_OTHERS = 0o007
_OWNER_ALONE = 0o077


def keep_private() -> None:
    """Let nobody but the owner read what is written from now on: VM templates, keys, passwords.

    A mask that keeps others out already is the administrator's choice (the service's lets its
    group read), and stays.
    """
    before = os.umask(_OWNER_ALONE)
    if before & _OTHERS == _OTHERS:
        os.umask(before)


def close_to_others(folder: Path) -> None:
    """Take others' rights on a state directory, in which an earlier version left readable files.

    A folder that many share (/tmp), or a home, is not the daemon's alone and is left as it is.
    """
    with suppress(OSError):
        now = folder.stat()
        shared = now.st_mode & stat.S_ISVTX or folder.resolve() in {Path("/"), Path.home()}
        if now.st_uid == os.geteuid() and not shared and now.st_mode & _OTHERS:
            folder.chmod(stat.S_IMODE(now.st_mode) & ~_OTHERS)
