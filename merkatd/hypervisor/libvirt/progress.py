"""How far work on another thread has come, and whether it may go on."""

from collections.abc import Callable

from merkatd.hypervisor.libvirt.errors import AbandonedError


def always() -> bool:
    """Work that may always go on."""
    return True


class Progress:
    """Written by one thread and read by another; each value is replaced as a whole."""

    def __init__(self, may: Callable[[], bool] = always) -> None:
        """`may` is asked before each call, on any thread: no call begins where it says no."""
        self.at_s = 0.0
        """When the latest call began."""
        self._abandoned = False
        self._may = may

    def begin(self, now_s: float) -> None:
        """A call begins. Raises AbandonedError where none is to begin any more."""
        self.at_s = now_s
        if self._abandoned:
            raise AbandonedError("it took too long to be told everything in this period")
        if not self._may():
            raise AbandonedError("another daemon may be acting by now")

    @property
    def abandoned(self) -> bool:
        """Whether no more calls are to begin."""
        return self._abandoned or not self._may()

    def abandon(self) -> None:
        """Begin no more calls."""
        self._abandoned = True
