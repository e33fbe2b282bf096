"""Errors of the environment in one line: what failed, why, and what to do about it."""

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path

_WAYS_OUT: Mapping[int, str] = {
    errno.ENOSPC: "free some space there, or name another place",
    errno.EDQUOT: "free some space there, or name another place",
    errno.EROFS: "name a folder that can be written",
    errno.EACCES: "check its permissions, or run the command as a user that may use it",
    errno.EPERM: "check its permissions, or run the command as a user that may use it",
    errno.ENOENT: "check the path and its folder",
    errno.ENOTDIR: "check the path: one of its folders is a file",
    errno.EISDIR: "name a file",
    errno.EADDRINUSE: "end the program that uses it, or name another one",
    errno.EMFILE: "close some files, or raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close some files, or raise the limit of open files of this machine",
}


def os_reason(error: OSError, subject: object = None) -> str:
    """Return the subject, the reason and the way out, if there is one.

    Without a subject, the file of the error is the subject, or else the command's output.
    """
    if subject is None and error.errno is None and error.filename is None:
        return str(error)
    what = subject if subject is not None else error.filename or "output"
    why = error.strerror or str(error)
    way = _WAYS_OUT.get(error.errno or 0)
    return f"{what}: {why}" if way is None else f"{what}: {why}; {way}"


_LEAST_BYTES = 1 << 20
"""With less than this a database can't be opened: its schema alone needs more."""


def full_disk(folder: Path) -> str:
    """Return the way out, to be added to an error, if the folder's disk is full; else "".

    SQLite reports a full disk as "disk I/O error" while it opens a file, so its message is no help.
    """
    try:
        left = shutil.disk_usage(folder).free
    except OSError:
        return ""
    if left >= _LEAST_BYTES:
        return ""
    return f"; the disk of {folder} is full ({left // 1024} KiB are left): free some space there"
