"""How far work on another thread has come, and whether anybody still waits for it."""

from merkatd.hypervisor.libvirt.errors import AbandonedError


class Progress:
    """Written by one thread and read by another; each value is replaced as a whole."""

    def __init__(self) -> None:
        self.at_s = 0.0
        """When the latest call began."""
        self._abandoned = False

    def begin(self, now_s: float) -> None:
        """A call begins. Raises AbandonedError where nobody waits for its answer."""
        self.at_s = now_s
        if self._abandoned:
            raise AbandonedError("nobody waits for this any longer")

    @property
    def abandoned(self) -> bool:
        """Whether no more calls are to begin."""
        return self._abandoned

    def abandon(self) -> None:
        """Begin no more calls."""
        self._abandoned = True
