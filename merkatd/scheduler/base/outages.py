"""Outages of servers: one log line at the start and one at the end."""

from twisted.logger import Logger

_log = Logger()


class Outage:
    """The known state of a server: answering or away."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.why: str | None = None
        """The latest error while the server is away."""

    def failed(self, why: str) -> None:
        """Record a failed call; log the first one of an outage."""
        if self.why is None:
            _log.warn("{server} is away: {why}", server=self._server, why=why)
        self.why = why

    def answered(self) -> None:
        """Record an answered call; log the end of an outage."""
        if self.why is not None:
            _log.info("{server} is back", server=self._server)
        self.why = None
