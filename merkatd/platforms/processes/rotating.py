"""What processes say, kept in files of bounded size and number."""

import os
from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class RotatingFile:
    """Takes bytes; when it is full it becomes NAME.1, and what was NAME.1 becomes NAME.2."""

    def __init__(self, path: Path, most_bytes: int, files: int) -> None:
        self._path = path
        self._most = most_bytes
        self._files = files
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._fd = os.open(path, _FLAGS, 0o600)
        self._size = os.fstat(self._fd).st_size

    def write(self, data: bytes) -> None:
        """Append to the file, which never becomes larger than its bound.

        Raise OSError where the disk takes no more; what is left of the data is lost then.
        """
        while data:
            if self._size >= self._most:
                self._turn()
            now = data[: self._most - self._size]
            written = os.write(self._fd, now)
            self._size += written
            data = data[written:]

    def _turn(self) -> None:
        """Continue in a new file, which is opened before the full one is closed.

        Where that fails, the full file stays open: the number of a closed descriptor soon belongs
        to another log, to a pipe or to a socket of this process.
        """
        following = self._path.with_name(f"{self._path.name}.new")
        opened = os.open(following, _FLAGS | os.O_TRUNC, 0o600)
        try:
            for number in range(self._files - 1, 0, -1):
                newer = self._numbered(number - 1)
                if newer.exists():
                    newer.replace(self._numbered(number))
            following.replace(self._path)
        except BaseException:
            os.close(opened)
            raise
        full, self._fd, self._size = self._fd, opened, 0
        os.close(full)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def close(self) -> None:
        """Write no more."""
        closing, self._fd = self._fd, -1
        os.close(closing)
