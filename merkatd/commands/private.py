"""Files of a daemon that others on the machine must not read."""

import os
import stat
from contextlib import suppress
from pathlib import Path

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
