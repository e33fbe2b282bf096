"""The memory that one host can give in one period, and which steps must free it first."""

from typing import NamedTuple


class Source(NamedTuple):
    """Memory that a step frees."""

    amount_mib: int
    step: str


class Pool:
    """What is free on a host, and behind it what balloon steps free, given away in order.

    Free memory and the sources lie end to end on one line, and whoever takes, takes the next
    stretch of it. It must come after the steps whose stretches it touches. As no two takers
    share a stretch, it does not matter in which order steps are confirmed: what has been
    given is at every moment no more than what was free and what has been freed. A host that
    holds more than it has begins below zero; nobody takes before that is made good.
    """

    def __init__(self, free_mib: int) -> None:
        self.free_mib = free_mib
        self._sources: list[Source] = []
        self._freed_mib = 0
        self._given_mib = 0

    def add(self, source: Source) -> None:
        """Put what a step frees at the end of the line."""
        self._sources.append(source)
        self._freed_mib += source.amount_mib

    @property
    def left_mib(self) -> int:
        """What can still be given; below 0 on a host that holds too much."""
        return self.free_mib + self._freed_mib - self._given_mib

    @property
    def now_mib(self) -> int:
        """What can be given without any step before it."""
        return max(self.free_mib - self._given_mib, 0)

    def take(self, amount_mib: int) -> tuple[str, ...]:
        """Take the next stretch; returns the steps that must come first."""
        start, end = self._given_mib, self._given_mib + amount_mib
        self._given_mib = end
        if end <= self.free_mib:
            return ()
        first: list[str] = []
        at = self.free_mib
        for source in self._sources:
            behind = at + source.amount_mib
            if at < 0 or (at < end and behind > start):
                first.append(source.step)
            at = behind
        return tuple(first)
