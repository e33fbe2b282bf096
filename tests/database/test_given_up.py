"""Work whose caller has given up, while the database hung, is not done later."""

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
from tests.database.test_service_reactor import on_a_reactor
from tests.servers import MARIADBD, MariaDb

_HOLDS_S = 10.0


class Wire:
    """Leads to a server, until it is cut: then it takes all that is said and says nothing.

    What connects later reaches the server.
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
        for one in (end for pair in self._pairs for end in pair):
            one.close()
        self._folder.cleanup()

    def cut(self) -> None:
        """Nothing passes on connections that are open now."""
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
        while said := source.recv(65_536):
            with contextlib.suppress(OSError):  # the wire is cut: it vanishes
                target.sendall(said)


def _stored(connection: sa.Connection) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(NOTES)).scalar_one())


def _work(connection: sa.Connection) -> None:
    note_store.add(connection, Note(at_s=1.0, kind=NoteKind.GRANT, who="ann", text="a test"))


async def _cancelled(running: Deferred[Any]) -> None:
    running.cancel()
    with pytest.raises(CancelledError):
        await running


def test_work_that_waits_for_a_thread_is_not_done(url: str) -> None:
    """All threads are held, the work waits, its caller leaves, the threads come back."""

    async def main(reactor: Any) -> int:
        database = await Database.open(url, reactor, np.random.default_rng(0), connections=1)
        free = threading.Event()
        holders = [
            ensureDeferred(database.read(lambda _: free.wait(_HOLDS_S) and None)) for _ in range(8)
        ]
        await _cancelled(ensureDeferred(database.run(_work)))
        free.set()
        for holder in holders:
            await holder
        stored = await database.read(_stored)
        await database.close()
        return stored

    assert on_a_reactor(main) == 0


def test_work_that_has_begun_is_rolled_back(url: str) -> None:
    """Its caller leaves between its last statement and the commit."""

    async def main(reactor: Any) -> int:
        database = await Database.open(url, reactor, np.random.default_rng(0))
        written, free = threading.Event(), threading.Event()

        def slow(connection: sa.Connection) -> None:
            _work(connection)
            written.set()
            assert free.wait(_HOLDS_S)

        running = ensureDeferred(database.run(slow))
        while not (written.is_set() or running.called):
            await deferLater(reactor, 0.001, lambda: None)
        await _cancelled(running)
        free.set()
        await deferLater(reactor, 0.05, lambda: None)
        await database.run(_work)
        stored = await database.read(_stored)
        await database.close()
        return stored

    assert on_a_reactor(main) == 1


@pytest.mark.skipif(MARIADBD is None, reason="mariadb-server is not here")
def test_a_server_that_is_stopped_does_nothing_of_it_when_it_goes_on(mariadb: MariaDb) -> None:
    """Twenty orders wait before it; all callers leave, and it is continued."""
    url = mariadb.make("given_up")

    async def main(reactor: Any) -> int:
        database = await Database.open(url, reactor, np.random.default_rng(0))
        await database.read(_stored)
        mariadb.freeze()
        try:
            orders = [ensureDeferred(database.run(_work)) for _ in range(20)]
            await deferLater(reactor, 0.2, lambda: None)
            for order in orders:
                await _cancelled(order)
        finally:
            mariadb.thaw()
        await database.run(_work)
        await deferLater(reactor, 0.2, lambda: None)
        stored = await database.read(_stored)
        await database.close()
        return stored

    assert on_a_reactor(main) == 1


@pytest.mark.skipif(MARIADBD is None, reason="mariadb-server is not here")
def test_a_connection_that_nothing_answers_on_is_given_up(
    mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine lost power, say: new connections are answered, and the work is done on one."""
    monkeypatch.setattr(database, "SILENCE_S", 0.5)
    url = mariadb.make("silent")
    with Wire(mariadb.socket) as wire:
        there = sa.make_url(url).update_query_dict({"unix_socket": str(wire.path)})

        async def main(reactor: Any) -> int:
            opened = there.render_as_string(hide_password=False)
            database = await Database.open(opened, reactor, np.random.default_rng(0))
            await database.run(_work)
            wire.cut()
            await database.run(_work)
            stored = await database.read(_stored)
            await database.close()
            return stored

        assert on_a_reactor(main) == 2


@pytest.mark.skipif(MARIADBD is None, reason="mariadb-server is not here")
def test_locks_of_a_daemon_that_is_gone_are_free_soon(
    mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped in the middle of a transaction under its lease: another daemon takes that."""
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
    for one in (first, second):
        one.dispose()
