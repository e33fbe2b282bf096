"""The cache of the XML of VMs and hosts until they change, and pools built from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from merkatd.embedded.model.records import Host, Vm
from merkatd.embedded.render.render_pools import host_xml
from merkatd.embedded.render.render_vm import vm_short_xml, vm_xml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from merkatd.embedded.model.world import World


class RenderedForm(Enum):
    """The forms of cached XML."""

    VM = "vm"
    VM_SHORT = "vm short"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class PoolReply:
    """The rows of a pool, rendered row by row: a large pool is rendered in pages."""

    root: str
    rows: Sequence[Vm | Host]
    text_of: Callable[[Vm | Host], str]
    wire_of: Callable[[Vm | Host], bytes] | None = None
    """The function that returns a row escaped for XML-RPC from the cache, if it is cached."""

    def text(self) -> str:
        """Return the whole element."""
        return f"<{self.root}>{''.join(map(self.text_of, self.rows))}</{self.root}>"

    def wire_pages(self, rows_per_page: int) -> Iterator[bytes]:
        """Yield the whole element page by page, escaped for XML-RPC."""
        yield f"&lt;{self.root}&gt;".encode()
        for start in range(0, len(self.rows), rows_per_page):
            page = self.rows[start : start + rows_per_page]
            yield b"".join(map(self.wire_of or self._wire, page))
        yield f"&lt;/{self.root}&gt;".encode()

    def _wire(self, row: Vm | Host) -> bytes:
        return escape(self.text_of(row)).encode()


class RenderCache:
    """Cached XML by form and id."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._texts: dict[RenderedForm, dict[int, str]] = {form: {} for form in RenderedForm}
        self._wires: dict[RenderedForm, dict[int, bytes]] = {form: {} for form in RenderedForm}
        self._held: dict[tuple[RenderedForm, int], tuple[float, str]] = {}
        world.on_change(self._forget)

    def text(self, form: RenderedForm, row: Vm | Host) -> str:
        """Return the row's XML."""
        if self._held:
            held = self._holding(form, row.id)
            if held is not None:
                return held
        text = self._texts[form].get(row.id)
        if text is None:
            text = self._texts[form][row.id] = self._render(form, row)
        return text

    def wire(self, form: RenderedForm, row: Vm | Host) -> bytes:
        """Return the row's XML, escaped for XML-RPC."""
        if self._held and (form, row.id) in self._held:
            return escape(self.text(form, row)).encode()
        wire = self._wires[form].get(row.id)
        if wire is None:
            wire = self._wires[form][row.id] = escape(self.text(form, row)).encode()
        return wire

    def pool(self, root: str, rows: Sequence[Vm | Host], form: RenderedForm) -> PoolReply:
        """Return a pool of rows in a form."""
        return PoolReply(root, rows, partial(self.text, form), partial(self.wire, form))

    def hold(self, row: Vm | Host, seconds: float) -> None:
        """Show the row's present XML for some seconds, whatever changes meanwhile."""
        until_s = self._world.now() + seconds
        for form in (
            (RenderedForm.HOST,)
            if isinstance(row, Host)
            else (RenderedForm.VM, RenderedForm.VM_SHORT)
        ):
            self._held[form, row.id] = (until_s, self.text(form, row))

    def _holding(self, form: RenderedForm, oid: int) -> str | None:
        held = self._held.get((form, oid))
        if held is None:
            return None
        if held[0] <= self._world.now():
            del self._held[form, oid]
            return None
        return held[1]

    def _render(self, form: RenderedForm, row: Vm | Host) -> str:
        if isinstance(row, Host):
            return host_xml(self._world, row, "")
        if form is RenderedForm.VM_SHORT:
            return vm_short_xml(self._world, row)
        return vm_xml(self._world, row, row.history[-1:], "", 0)

    def _forget(self, kind: str, oid: int) -> None:
        forms = {"vm": (RenderedForm.VM, RenderedForm.VM_SHORT), "host": (RenderedForm.HOST,)}.get(
            kind, ()
        )
        for form in forms:
            self._texts[form].pop(oid, None)
            self._wires[form].pop(oid, None)
