"""What processes say, kept in files of bounded size and number."""

import os
from pathlib import Path


class RotatingFile:
    """Takes bytes; when it is full it becomes NAME.1, and what was NAME.1 becomes NAME.2."""

    def __init__(self, path: Path, most_bytes: int, files: int) -> None:
        self._path = path
        self._most = most_bytes
        self._files = files
        self._open()

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size

    def write(self, data: bytes) -> None:
        """Keep this; no file ever becomes larger than it may."""
        while data:
            if self._size >= self._most:
                self._turn()
            now = data[: self._most - self._size]
            written = os.write(self._fd, now)
            self._size += written
            data = data[written:]

    def _turn(self) -> None:
        os.close(self._fd)
        for number in range(self._files - 1, 0, -1):
            newer = self._numbered(number - 1)
            if newer.exists():
                newer.replace(self._numbered(number))
        if self._files == 1:
            self._path.unlink()
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def close(self) -> None:
        """Write no more."""
        os.close(self._fd)
