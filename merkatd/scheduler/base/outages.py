"""Outages: one line in the log when a server goes away, and one when it is back."""

from twisted.logger import Logger

_log = Logger()


class Outage:
    """Whether a server answers, as far as is known."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.why: str | None = None
        """The latest error, while the server is away."""

    def failed(self, why: str) -> None:
        """The server did not answer; logged once per outage."""
        if self.why is None:
            _log.warn("{server} is away: {why}", server=self._server, why=why)
        self.why = why

    def answered(self) -> None:
        """The server answered; logged where it was away."""
        if self.why is not None:
            _log.info("{server} is back", server=self._server)
        self.why = None
