"""Atomic writes of files, and private file permissions."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from merkatd.daemon.errors import StartError
from merkatd.protocol.guest_keys import GuestKeys, guest_keys


def write_whole_file(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a new file and rename it, so that a full disk or a kill leaves no partial file."""
    half = path.with_name(f"{path.name}.new")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    half.rename(path)


def read_or_create(path: Path, text: str) -> str:
    """Return the file's text; write `text` first if the file is missing or empty.

    Raise StartError if the file is not UTF-8.
    """
    try:
        content = path.read_text().strip() if path.exists() else ""
    except UnicodeDecodeError:
        raise StartError(f"{path} is not UTF-8 text; remove it, and a new one is made") from None
    if not content:
        write_whole_file(path, text)
        content = text.strip()
    return content


def keys_of(directory: Path) -> GuestKeys:
    """Return the keys of the site's guests. Raise StartError if their secret is damaged."""
    try:
        return guest_keys(directory)
    except ValueError as error:
        raise StartError(str(error)) from None


_OTHERS = 0o007
_OWNER_ALONE = 0o077


def make_new_files_private() -> None:
    """Make files written from now on private to their owner: VM templates, keys, passwords.

    A umask that already excludes other users is the administrator's choice and stays; the umask of
    the service lets its group read.
    """
    before = os.umask(_OWNER_ALONE)
    if before & _OTHERS == _OTHERS:
        os.umask(before)


def remove_permissions_of_others(folder: Path) -> None:
    """Remove other users' permissions on a state directory: old versions left readable files there.

    A shared directory (/tmp) or a home directory is not the daemon's alone and stays unchanged.
    """
    with suppress(OSError):
        now = folder.stat()
        shared = now.st_mode & stat.S_ISVTX or folder.resolve() in {Path("/"), Path.home()}
        if now.st_uid == os.geteuid() and not shared and now.st_mode & _OTHERS:
            folder.chmod(stat.S_IMODE(now.st_mode) & ~_OTHERS)
