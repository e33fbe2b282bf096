"""Threads for calls that can't be taken back: as many as are needed, none that must end."""

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Workers:
    """Threads that come when there is work and wait for more; a hanging one holds up no exit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> None:
        """Run it on a thread that does nothing else."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                name = f"{self._name}-{len(self._threads)}"
                thread = threading.Thread(target=self._turn, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        self._work.put(work)

    @property
    def count(self) -> int:
        """Threads there are, at work or waiting for it."""
        return len(self._threads)

    @property
    def idle(self) -> int:
        """Threads that wait for work."""
        return self._idle

    def stop(self, patience_s: float = 1.0) -> None:
        """End the threads; those that hang end when their calls do."""
        for _ in self._threads:
            self._work.put(None)
        if self._idle == len(self._threads):
            for thread in self._threads:
                thread.join(patience_s)

    def _turn(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            with self._lock:
                self._idle += 1
