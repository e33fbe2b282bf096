"""The period's interface to the power of hosts: it switches them off and on."""

from typing import Protocol


class PowerPort(Protocol):
    """Switches hosts off and on."""

    def serves(self, host: str) -> bool:
        """Return whether it can switch the host of this name."""

    async def sleep(self, host: int, name: str) -> str:
        """Switch a host off; return why it failed, "" if it did not.

        A host that needs long may still be running then, and a host whose switch failed may be off.
        """

    async def wake(self, host: int, name: str) -> str:
        """Switch a host on; return why it failed, "" if it did not. It may still have to boot."""
