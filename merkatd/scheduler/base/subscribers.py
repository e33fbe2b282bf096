"""Subscribers to the period: each is called, and an error of one stops nothing else."""

from collections.abc import Callable
from typing import Generic, ParamSpec

from twisted.logger import Logger

Arguments = ParamSpec("Arguments")

_log = Logger()


class Subscribers(Generic[Arguments]):
    """Functions that are called one after another with the same arguments."""

    def __init__(self, news: str) -> None:
        """`news` is the subject of the calls, for the log."""
        self._news = news
        self._calls: list[Callable[Arguments, object]] = []
        self.errors = 0
        """Calls that raised an exception, since the daemon started."""

    def add(self, call: Callable[Arguments, object]) -> None:
        """Call this function too from now on."""
        self._calls.append(call)

    def call(self, *arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        """Call every function; exceptions are logged and counted."""
        for call in self._calls:
            try:
                call(*arguments, **named)
            except Exception:  # noqa: BLE001 - a subscriber must not end a period or the beat
                self.errors += 1
                _log.failure(
                    "A subscriber to {news} raised an exception: {call}",
                    news=self._news,
                    call=getattr(call, "__qualname__", type(call).__qualname__),
                )
