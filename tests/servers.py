"""Private servers for tests, each in its own folder, removed after the test."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import sqlalchemy as sa

from merkatd.database.base.transactions import is_transient
from merkatd.database.database import transaction

MARIADBD = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")
INSTALL = shutil.which("mariadb-install-db")

_QUICK = (
    "--no-defaults",
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=16M",
    "--skip-log-bin",
    "--skip-name-resolve",
    # The system keeps the writes of a killed process; only a power cut would lose them.
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-flush-method=nosync",
)
_READY_S = 20.0
_LIBC = ctypes.CDLL(None)
_DIE_WITH_PARENT = 1


class MariaDb:
    """A MariaDB reachable only by its socket; its folder has a short path, as sockets require."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        """Return the path of its socket."""
        return self.directory / "s"

    @property
    def running(self) -> bool:
        """Return whether the server was started and not ended."""
        return self._process is not None

    def install(self) -> None:
        """Create the system tables."""
        assert INSTALL is not None
        command = [INSTALL, *_QUICK, *self._paths(), "--auth-root-authentication-method=normal"]
        subprocess.run([*command, "--skip-test-db", "--force"], check=True, capture_output=True)

    def start(self, *options: str) -> None:
        """Start or restart the server; return once it accepts connections."""
        assert MARIADBD is not None
        self.socket.unlink(missing_ok=True)
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [MARIADBD, *_QUICK, *self._paths(), "--skip-networking", *options],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                preexec_fn=_end_with_the_tests,  # noqa: PLW1509 - a call to the system and no more
            )
        ending = time.monotonic() + _READY_S
        while not self.socket.exists():
            if self._process.poll() is not None or time.monotonic() > ending:
                raise AssertionError(f"no MariaDB: {(self.directory / 'log').read_text()[-2000:]}")
            time.sleep(0.005)

    def kill(self) -> None:
        """End the server as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the server in order."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop the process: connections stay open, and no query is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        # Each thread stops on its own, and may answer until then.
        tasks = Path(f"/proc/{self._process.pid}/task")
        while any(not _is_stopped(task) for task in tasks.iterdir()):
            time.sleep(0.001)

    def thaw(self) -> None:
        """Continue the process."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def url(self, database: str = "") -> str:
        """Return the URL of a database on this server."""
        return f"mysql+pymysql://root@localhost/{database}?unix_socket={self.socket}"

    def make(self, database: str) -> str:
        """Create an empty database and return its URL."""
        self._say(f"CREATE DATABASE {database}")
        return self.url(database)

    def drop(self, database: str) -> None:
        """Drop a database with all its tables."""
        self._say(f"DROP DATABASE {database}")

    def _say(self, statement: str) -> None:
        engine = sa.create_engine(self.url(), poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)

    def _paths(self) -> list[str]:
        paths = [
            f"--datadir={self.directory / 'data'}",
            f"--socket={self.socket}",
            f"--pid-file={self.directory / 'pid'}",
            # A starting server removes other servers' temporary tables from a shared folder.
            f"--tmpdir={self.directory}",
        ]
        return [*paths, "--user=root"] if os.geteuid() == 0 else paths

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None


def _end_with_the_tests() -> None:
    """End this process when its parent ends."""
    _LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL)


@contextlib.contextmanager
def mariadb() -> Iterator[MariaDb]:
    """Start a MariaDB; kill it and remove its folder afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="merkat-db-"))
    server = MariaDb(directory)
    try:
        server.install()
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def locking(engine: sa.Engine) -> Iterator[list[str]]:
    """Collect the statements that lock rows until the end of their transaction."""
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.rstrip().endswith("FOR UPDATE"):
            statements.append(statement)

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


def retried(engine: sa.Engine, work: Callable[[sa.Connection], object]) -> None:
    """Run a transaction as the daemon does: again after each transient error."""
    while True:
        try:
            transaction(engine, work)
        except sa.exc.DBAPIError as error:
            if not is_transient(error):
                raise
        else:
            return


def _is_stopped(task: Path) -> bool:
    """Return whether a thread of a process is stopped or has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return (task / "stat").read_text().rpartition(")")[2].split()[0] in {"T", "Z"}
    return True
