"""Work cancelled while the database hung never takes effect later."""

import contextlib
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import sqlalchemy as sa
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import deferLater

from merkatd.database import Database, database, migrations
from merkatd.database.base import engine
from merkatd.database.ledger import note_store
from merkatd.database.ledger.note_store import NOTES, Note, NoteKind
from merkatd.database.scheduler import lease_store
from tests.database.test_service_reactor import run_on_reactor
from tests.servers import MARIADBD, MariaDb

_HOLDS_S = 10.0


class Wire:
    """A proxy to a server until it is cut; then it accepts data and never answers.

    Connections opened after the cut reach the server.
    """

    def __init__(self, server: Path) -> None:
        self._server, self._pairs = server, list[tuple[socket.socket, socket.socket]]()
        self._folder = tempfile.TemporaryDirectory(prefix="merkat-wire-")
        self.path = Path(self._folder.name) / "s"
        self._door = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> Self:
        self._door.bind(str(self.path))
        self._door.listen()
        threading.Thread(target=self._take, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()
        for end in (end for pair in self._pairs for end in pair):
            end.close()
        self._folder.cleanup()

    def cut(self) -> None:
        """Stop all traffic on the present connections."""
        for _near, far in self._pairs:
            far.shutdown(socket.SHUT_RDWR)

    def _take(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._door.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self._server))
                self._pairs.append((near, far))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=_pass_on, args=pair, daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            with contextlib.suppress(OSError):  # a cut connection drops the data
                target.sendall(data)


def _count_notes(connection: sa.Connection) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(NOTES)).scalar_one())


def _add_note(connection: sa.Connection) -> None:
    note_store.add(connection, Note(at_s=1.0, kind=NoteKind.GRANT, who="ann", text="a test"))


async def _cancel(running: Deferred[Any]) -> None:
    running.cancel()
    with pytest.raises(CancelledError):
        await running


def test_cancelled_work_in_the_queue_never_runs(url: str) -> None:
    """Work that is cancelled while all threads are busy does not run once they are free."""

    async def main(reactor: Any) -> int:
        database = await Database.open(url, reactor, np.random.default_rng(0), connections=1)
        free = threading.Event()
        holders = [
            ensureDeferred(database.read(lambda _: free.wait(_HOLDS_S) and None)) for _ in range(8)
        ]
        await _cancel(ensureDeferred(database.run(_add_note)))
        free.set()
        for holder in holders:
            await holder
        stored = await database.read(_count_notes)
        await database.close()
        return stored

    assert run_on_reactor(main) == 0


def test_cancelled_work_that_has_begun_is_rolled_back(url: str) -> None:
    """The cancellation arrives between the last statement and the commit."""

    async def main(reactor: Any) -> int:
        database = await Database.open(url, reactor, np.random.default_rng(0))
        written, free = threading.Event(), threading.Event()

        def slow(connection: sa.Connection) -> None:
            _add_note(connection)
            written.set()
            assert free.wait(_HOLDS_S)

        running = ensureDeferred(database.run(slow))
        while not (written.is_set() or running.called):
            await deferLater(reactor, 0.001, lambda: None)
        await _cancel(running)
        free.set()
        await deferLater(reactor, 0.05, lambda: None)
        await database.run(_add_note)
        stored = await database.read(_count_notes)
        await database.close()
        return stored

    assert run_on_reactor(main) == 1


@pytest.mark.skipif(MARIADBD is None, reason="mariadb-server is not here")
def test_a_frozen_server_executes_no_cancelled_work_after_it_continues(mariadb: MariaDb) -> None:
    """Twenty transactions wait for the server, are cancelled, and never take effect."""
    url = mariadb.make("given_up")

    async def main(reactor: Any) -> int:
        database = await Database.open(url, reactor, np.random.default_rng(0))
        await database.read(_count_notes)
        mariadb.freeze()
        try:
            orders = [ensureDeferred(database.run(_add_note)) for _ in range(20)]
            await deferLater(reactor, 0.2, lambda: None)
            for order in orders:
                await _cancel(order)
        finally:
            mariadb.thaw()
        await database.run(_add_note)
        await deferLater(reactor, 0.2, lambda: None)
        stored = await database.read(_count_notes)
        await database.close()
        return stored

    assert run_on_reactor(main) == 1


@pytest.mark.skipif(MARIADBD is None, reason="mariadb-server is not here")
def test_a_silent_connection_is_abandoned(
    mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a power failure, the work moves to a new connection that the server answers."""
    monkeypatch.setattr(database, "SILENCE_S", 0.5)
    url = mariadb.make("silent")
    with Wire(mariadb.socket) as wire:
        there = sa.make_url(url).update_query_dict({"unix_socket": str(wire.path)})

        async def main(reactor: Any) -> int:
            opened = there.render_as_string(hide_password=False)
            database = await Database.open(opened, reactor, np.random.default_rng(0))
            await database.run(_add_note)
            wire.cut()
            await database.run(_add_note)
            stored = await database.read(_count_notes)
            await database.close()
            return stored

        assert run_on_reactor(main) == 2


@pytest.mark.skipif(MARIADBD is None, reason="mariadb-server is not here")
def test_locks_of_a_stopped_daemon_expire_soon(
    mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a daemon stops in a transaction that holds its lease, another daemon gets the lease."""
    monkeypatch.setattr(engine, "IDLE_S", 1)
    url = mariadb.make("stopped")
    first, second = engine.make_engine(url), engine.make_engine(url)
    migrations.upgrade(first)
    token = database.transaction(first, lambda c: lease_store.take_lease(c, "first", None))
    assert token is not None
    stopped = first.connect()
    seen = database.transaction(second, lease_store.read_lease)
    lease_store.renew_lease(stopped, token)
    began_s = time.monotonic()
    assert (
        database.transaction(second, lambda c: lease_store.take_lease(c, "second", seen))
        is not None
    )
    assert time.monotonic() - began_s < 10
    with pytest.raises(sa.exc.DBAPIError):
        stopped.execute(sa.text("SELECT 1"))
    stopped.invalidate()
    for each in (first, second):
        each.dispose()
