"""The frame: a state drawn for a terminal of some size. Pure."""

from collections.abc import Iterable, Sequence

from merkatd.demo.screen.coloured_text import (
    BAD,
    BOLD,
    FAINT,
    GOOD,
    PLAIN,
    TITLE,
    WARN,
    Line,
    Piece,
    bare,
    chart,
    fitted,
    progress,
    tenant_letter,
    wrapped,
)
from merkatd.demo.screen.display_state import (
    DisplayedDecision,
    DisplayedHost,
    DisplayedTenant,
    DisplayState,
    GoalStatus,
)
from merkatd.demo.screen.host_bars import BarPart, shares
from merkatd.demo.screen.terminal_colours import Colours, tenant_style

WIDE = 140
"""The number of columns from which decisions are shown beside the rest."""
_GAP = 3
_TALLEST = 8
"""The most lines of a price's chart."""

_STANDING_STYLE = {
    GoalStatus.AWAY: FAINT,
    GoalStatus.ON_TRACK: GOOD,
    GoalStatus.BEHIND: WARN,
    GoalStatus.OVERDUE: BAD,
}


def frame(
    state: DisplayState, width: int, height: int, colours: Colours = Colours.MANY
) -> tuple[Line, ...]:
    """Return at most `height` lines of exactly `width` columns, with all tenants."""
    head = [
        _introduction(state, width, colours),
        _title(state, width),
        _hint(state, width),
        *_page(state, width),
    ]
    room = height - len(head)
    arrange = _wide if width >= WIDE else _narrow
    body = arrange(state, width, room, colours)
    return tuple(fitted(line, width) for line in [*head, *body][:height])


def _narrow(state: DisplayState, width: int, room: int, colours: Colours) -> list[Line]:
    """Return the parts one below the other; the decisions get the remaining lines."""
    tenants, prices = _tenants(state, width, colours), _prices(state, width, 1)
    for_hosts = room - len(tenants) - len(prices) - 2
    most = min(for_hosts, max(for_hosts // 2, len(state.hosts) + 1))
    lines = [*_hosts(state, width, most, colours), *prices, *tenants]
    return [*lines, *_decisions(state, width, room - len(lines), colours)]


def _wide(state: DisplayState, width: int, room: int, colours: Colours) -> list[Line]:
    """Return the decisions beside the other parts."""
    left = (width - _GAP) * 11 // 20
    right = width - _GAP - left
    tenants = _tenants(state, left, colours)
    hosts = _hosts(state, left, room - len(tenants) - 5, colours)
    for_prices = room - len(hosts) - len(tenants) - 3
    prices = _prices(state, left, min(max(for_prices // 2, 1), _TALLEST))
    lefts = [*hosts, (), *tenants, (), *prices]
    rights = _decisions(state, right, room, colours)
    rows = max(len(lefts), len(rights))
    return [
        (*fitted(line, left), Piece(" " * _GAP), *other)
        for line, other in zip(_filled(lefts, rows), _filled(rights, rows), strict=True)
    ]


def _filled(lines: Sequence[Line], rows: int) -> list[Line]:
    return [*lines, *[()] * (rows - len(lines))]


# -- parts ------------------------------------------------------------------------------------


def _introduction(state: DisplayState, width: int, colours: Colours) -> Line:
    """Return what the screen shows, in as many words as fit."""
    tenants, hosts = len(state.tenants), len(state.hosts)
    if not tenants or not hosts:
        who = "Tenants bid for the CPU and memory of a simulated cloud"
    else:
        who = f"{_number(tenants)} tenants bid for {hosts} host{'s' if hosts > 1 else ''}"
    what = "each letter" if colours is Colours.NONE else "each block"
    texts = (
        f" {who}. Each bar is a host, {what} in it a VM, as wide as its share of the CPU.",
        f" {who}: a bar is a host, {what} a VM's share of it.",
        f" {who}.",
    )
    return (Piece(next((text for text in texts if len(text) <= width), texts[-1]), BOLD),)


def _number(number: int) -> str:
    words = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
    return words[number] if number < len(words) else str(number)


_SLOW = 0.8
"""The part of the demo's speed below which the title says that the demo is slower."""


def _title(state: DisplayState, width: int) -> Line:
    doing = f"period {state.period}" if state.period else "starting"
    if state.paused:
        doing = "paused"
    pending = f", {state.pending} pending" if state.pending else ""
    left = f" merkat demo  {doing}  {state.running} VMs on {len(state.hosts)} hosts{pending}"
    if state.speed_part < _SLOW and not state.paused:
        left += f"  {state.speed_part:.0%} speed"
    if state.failures:
        left += f"  {state.failures} periods failed"
    minutes, seconds = divmod(max(int(state.left_s + 0.5), 0), 60)
    left_time = f"{minutes}:{seconds:02d}"
    rights = (f"ends in {left_time}, or with Ctrl-C ", f"ends in {left_time} ", f"{left_time} ")
    right = next((text for text in rights if len(left) + 2 + len(text) <= width), rights[-1])
    text = left + " " * max(2, width - len(left) - len(right)) + right
    return (Piece(text, TITLE),)


def _hint(state: DisplayState, width: int) -> Line:
    for lead in (" in a second terminal: ", " elsewhere: ", " "):
        if len(lead) + len(state.command) <= width:
            return (Piece(lead, FAINT), Piece(state.command, BOLD))
    return (Piece(state.command, BOLD),)


def _page(state: DisplayState, width: int) -> list[Line]:
    """Return the line with the web page's address, none before it is known."""
    lead = " in a browser: "
    fits = bool(state.page) and len(lead) + len(state.page) <= width
    return [(Piece(lead, FAINT), Piece(state.page, BOLD))] if fits else []


def _heading(name: str, what: str, width: int) -> Line:
    line = (Piece(name, BOLD), Piece(f"  {what} ", FAINT))
    rest = width - sum(len(piece.text) for piece in line)
    return (*line, Piece("─" * max(rest, 0), FAINT))


def _hosts(state: DisplayState, width: int, room: int, colours: Colours) -> list[Line]:
    """Return the bars of hosts' CPU, and of their memory if there is room for all."""
    if not state.hosts:
        return [_heading("HOSTS", "none yet", width), (Piece(f" {state.doing}", BOLD),)]
    what = "the share of each VM in percent of a core"
    both = len(state.hosts) * 2 + 1 <= room
    if both:
        what += "; below it its memory in GiB"
    lines = [_heading("HOSTS", what, width)]
    shown = state.hosts
    if len(shown) + 1 > room:
        shown = shown[: max(room - 2, 0)]
    letters = [tenant_letter(tenant.name) for tenant in state.tenants]
    for host in shown:
        lines.append(_host_cpu(host, letters, width, colours))
        if both:
            lines.append(_host_memory(host, letters, width, colours))
    if len(shown) < len(state.hosts):
        lines.append((Piece(f"and {len(state.hosts) - len(shown)} more", FAINT),))
    return lines


def _host_cpu(host: DisplayedHost, letters: Sequence[str], width: int, colours: Colours) -> Line:
    used = sum(vm.cpu for vm in host.vms)
    memory = sum(vm.memory for vm in host.vms)
    tail = f" cpu{_part(used, host.cpu)} mem{_part(memory, host.memory)}"
    bar = width - 8 - len(tail)
    parts = [BarPart(vm.cpu, _letter(vm.tenant, letters), vm.tenant, vm.name) for vm in host.vms]
    return (Piece(f"{host.name[:7]:7} "), *shares(parts, host.cpu, bar, colours), Piece(tail))


def _host_memory(host: DisplayedHost, letters: Sequence[str], width: int, colours: Colours) -> Line:
    bar = width - 8 - len(" cpu100% mem100%")
    parts = [BarPart(vm.memory / 1024, _letter(vm.tenant, letters), vm.tenant) for vm in host.vms]
    return (Piece(" " * 8), *shares(parts, host.memory / 1024, bar, colours))


def _letter(tenant: int, letters: Sequence[str]) -> str:
    return letters[tenant] if tenant >= 0 else "?"


def _part(amount: float, total: float) -> str:
    return f"{amount / total if total else 0.0:4.0%}"


def _prices(state: DisplayState, width: int, height: int) -> list[Line]:
    return [
        _heading("PRICES", "credits a period", width),
        *_price("a core", state.cpu_prices, width, height),
        *_price("a GiB", state.memory_prices, width, height),
    ]


def _price(what: str, values: Sequence[float], width: int, height: int) -> list[Line]:
    now = values[-1] if values else 0.0
    tail = f" most {max(values, default=0.0):.3g}"
    top, *below = chart(values, width - 16 - len(tail), height)
    first = (Piece(f"{what:7}"), Piece(f"{now:8.3f} ", BOLD), Piece(top, GOOD), Piece(tail, FAINT))
    return [first, *((Piece(" " * 16), Piece(row, GOOD)) for row in below)]


_FIXED = 65
"""The columns of a tenant's line besides its bar."""
_GOT = 5
"""The columns of the cores that real guests used."""


def _tenants(state: DisplayState, width: int, colours: Colours) -> list[Line]:
    real = any(tenant.got is not None for tenant in state.tenants)
    bar = max(width - _FIXED - (_GOT if real else 0), 6)
    legend = next((legend for legend in _LEGENDS if len(legend) <= bar), "")
    got = f"{'got':>{_GOT}}" if real else ""
    names = (
        f"{'':16}{'VMs':>3} {'bid':>5} {'cores':>5}{got}  "
        f"{legend:{bar}} {'':9}{'left':>5} {'met':>5} {'credits':>8}"
    )
    lines: list[Line] = [(Piece("TENANTS"[: len(names)], BOLD), Piece(names[7:], FAINT))]
    lines += [_tenant(at, tenant, bar, colours) for at, tenant in enumerate(state.tenants)]
    return lines


_LEGENDS = ("work done, ┃ time passed", "done, ┃ time", "done")


def _tenant(at: int, tenant: DisplayedTenant, bar: int, colours: Colours) -> Line:
    name: Line = (
        Piece(tenant_letter(tenant.name), tenant_style(at, colours)),
        Piece(f" {tenant.name[:4]:5}", BOLD),
        Piece(f"{tenant.character[:8]:9}"),
    )
    met = f"{tenant.kept}/{tenant.kept + tenant.missed}"
    tail = Piece(f"{tenant.left_min:4.0f}m {met:>5} {tenant.balance:8.0f}")
    real = tenant.got is not None
    standing = Piece(f" {tenant.standing:9}", _STANDING_STYLE[tenant.standing])
    if tenant.standing is GoalStatus.AWAY:
        got = f"{'-':>{_GOT}}" if real else ""
        nothing = f"{'-':>3} {'-':>5} {'-':>5}{got}  {'':{bar}}"
        return (*name, Piece(nothing, FAINT), standing, tail)
    got = f"{tenant.got:{_GOT}.2f}" if real else ""
    bid = f"{tenant.bid:5.3g}" if tenant.bid < 1000 else f"{tenant.bid:5.0f}"
    cores = f"{tenant.cores:5.{2 if real else 1}f}"
    numbers = (Piece(f"{tenant.vms:3} {bid} {cores}"), Piece(got, BOLD), Piece("  "))
    bar_of_work = progress(tenant.done, tenant.passed, bar)
    return (*name, *numbers, *bar_of_work, standing, tail)


def _decisions(state: DisplayState, width: int, room: int, colours: Colours) -> list[Line]:
    if room < 2:
        return []
    whole = room > _ROOMY
    lines: list[Line] = []
    for decision in reversed(state.decisions[-room:]):
        lines[:0] = _decision(decision, state.tenants, width, colours, whole=whole)
    heading = _heading("DECISIONS", "why, the newest last", width)
    return [heading, *lines[-(room - 1) :]]


_ROOMY = 12
"""The number of lines above which each decision is shown with its whole reason."""


def _decision(
    decision: DisplayedDecision,
    tenants: Sequence[DisplayedTenant],
    width: int,
    colours: Colours,
    *,
    whole: bool,
) -> Iterable[Line]:
    known = 0 <= decision.tenant < len(tenants)
    letter = tenant_letter(tenants[decision.tenant].name) if known else " "
    head = (
        Piece(f"{decision.period:3} ", FAINT),
        Piece(letter, tenant_style(decision.tenant, colours) if known else PLAIN),
        Piece(f" {decision.what}", BOLD),
    )
    why = f": {decision.why}" if decision.why else ""
    if not whole:
        yield (*head, Piece(why))
        return
    first, *others = wrapped(why, width - len(bare(head)), width - 6)
    yield (*head, Piece(first))
    for rest in others:
        yield (Piece(f"{'':6}{rest}"),)
