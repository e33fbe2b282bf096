"""What a worker is called in its batch system: a text with its VM's id in one place. Pure."""

from dataclasses import dataclass
from typing import Final, Self

VM: Final = "{vm}"
WORKER: Final = "one-{vm}"
LONGEST: Final = 63
"""Characters of a worker's name, as of any host's."""
_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class WorkerNames:
    """Made from the parameter `worker` of a template, which its tenant writes."""

    before: str
    after: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Read `worker`. Raise ValueError where it has {vm} not once, or is too long."""
        if text.count(VM) != 1 or len(text) > LONGEST:
            shown = repr(text if len(text) <= LONGEST else f"{text[:LONGEST]}...")
            raise ValueError(
                f"worker must have {VM} once and at most {LONGEST} characters (got {shown})"
            )
        before, _, after = text.partition(VM)
        return cls(before, after)

    def of_vm(self, vm: int) -> str:
        """Return the name of this VM's worker."""
        return f"{self.before}{vm}{self.after}"

    def vm_of(self, name: str) -> int | None:
        """Return the VM of the worker of this name, None where it is another's."""
        middle = name.removeprefix(self.before).removesuffix(self.after)
        if not middle.isdecimal() or not middle.isascii() or len(middle) > _DIGITS:
            return None
        return int(middle) if name == f"{self.before}{middle}{self.after}" else None
