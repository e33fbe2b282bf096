"""The page about the tenants' interface; `python -m` with this module's name writes it."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from merkatd.api.xmlrpc.errors import FaultCode
from merkatd.api.xmlrpc.method_table import Method, Parameter
from merkatd.api.xmlrpc.methods import METHODS
from merkatd.service.base.errors import Code

PAGE = "docs/xmlrpc.md"

_HEAD = """\
# The tenants' interface

`merkatd` answers XML-RPC at `/RPC2`, in OpenNebula's own manner: the session string,
`user:password` or `user:token`, is the first argument of every call, and OpenNebula itself says
whose it is. The file `merkat_xmlrpc` in the daemon's state directory holds the address, section
`[api]` of the configuration says where it listens, with which certificate, and how much it puts
up with. This page is made from the code by `python -m merkatd.api.xmlrpc.xmlrpc_reference`.

```python
import xmlrpc.client

server = xmlrpc.client.ServerProxy("http://localhost:2634/RPC2")
success, value, code = server.merkat.price.info("ann:secret")[:3]
```

Python programs have it easier with `merkatd.client`, which needs the standard library alone. It
reads the address from MERKAT_XMLRPC or `~/.one/merkat_xmlrpc` and the login from the file that
ONE_AUTH names or `~/.one/one_auth`, and raises an error of its own for each code:

```python
from merkatd.client import Merkat

with Merkat() as merkat:
    quote = merkat.quote_for(7, cpu=150.0)
    if quote.cost is not None and quote.cost < 10.0:
        merkat.bid(7, cpu=quote.resources[0].bid)
```

## Answers

A call that was done is answered with `[true, value, 0]`, one that was not with
`[false, "[method] why", code, id]`, where the id is that of the VM or user it was about, or -1.
OpenNebula puts XML documents into strings; here values are XML-RPC's own structs and arrays,
since every library hands those over as they are, with their types, and nobody has to parse twice.
A member that has no value is left out: XML-RPC has no null, nor an infinity.

A request states its length in `Content-Length`, as XML-RPC libraries do; one with
`Transfer-Encoding` is answered with 411.

CPU is counted in percent of a core, memory in MiB, money in credits, times in seconds since the
epoch. Numbers may be given as `int` or `double`; NaN, infinities, and numbers below 0 are refused.
"""

_CODES: Mapping[Code, str] = {
    Code.AUTHENTICATION: "the login is nobody's",
    Code.AUTHORIZATION: "the user may not do this",
    Code.NO_EXISTS: "there is no such VM, application or tenant",
    Code.ACTION: "not now: no period has ended yet, somebody was quicker, or there were too many"
    " calls; try again in a moment",
    Code.RPC_API: "an argument is not what it should be; the text says what would be right",
    Code.INTERNAL: "the daemon, or the OpenNebula behind it, failed",
}
_FAULTS: Mapping[FaultCode, str] = {
    FaultCode.WRONG_TYPE: "an argument has the wrong type, or there are too few or too many",
    FaultCode.NO_CALL: "it is no XML-RPC, has a document type, or is nested too deep",
    FaultCode.UNKNOWN_METHOD: "there is no such method",
    FaultCode.TOO_LARGE: "the call is larger than `api.body`",
}

_RIGHTS = """\
## Who may do what

Everybody who can log in sees prices and quotes for VMs that there are not yet. A VM's owner and
administrators (user 0 and the users of group 0) may do everything with it. For others OpenNebula
is asked, in their own name: who may see the VM there (by its permissions or a rule) may ask for
its bid, quotes and explanation; who has its permission to manage, by group or for all, may change
its bid too. Money is shown to its tenant and to administrators, and an application's budget is
changed by them alone; so it is with platforms. A group's own permissions say who may do what with
it. Everybody may ask how the daemon is; the mode, plans and pauses are for administrators alone.
Weights are set by administrators, with `merkatd tenant`.

OpenNebula's word on a login is kept for `api.login` and then asked for again: so long a password
that was changed goes on being good. Kept is a keyed hash of the session string, never the string.

Calls are limited for each user (`api.user_calls`), and those of users that are not known yet for
each address (`api.address_calls`). A large call counts as several: each 4 KiB of a known user's,
and each KiB of others', count as another one. A call beyond the limit is refused half a second
later, and the next one on its connection is read after that. Orders, which leave something in the
database, are limited by the hour (`api.user_orders`). After five wrong passwords the same
user waits at the same address, a second at first and at most a minute; from other addresses, and
with a login that was good within the last hour, there is no wait. A wrong password is answered
after half a second or a multiple of it: the time does not tell whether there is such a user. Behind
a proxy, name it in `api.trusted_proxies`: its `X-Forwarded-For` then says which address counts.
Of each address there at most `api.connections_per_address` calls are in hand at a time: the next
one is refused at once, and its connection closed.
"""

_METHODS = """\
## Methods

In the examples `session` is the session string, `vm` the id of one of the caller's VMs, and
`application`, `platform` and `group` those of an application, a platform and a group, `plan` the
number of the plan that waits, `template` the text of a platform's template (docs/platforms.md),
`vm_template` that of a VM's.
"""


def page() -> str:
    """The text of the page."""
    return "\n".join(
        (
            _HEAD,
            "| Code | |\n|---|---|",
            *(f"| {code} | {does} |" for code, does in _CODES.items()),
            "\nWhat is no call at all is answered with a fault:\n",
            "| Fault | |\n|---|---|",
            *(f"| {code} | {does} |" for code, does in _FAULTS.items()),
            "",
            _RIGHTS,
            _METHODS,
            *(line for name in sorted(METHODS) for line in _method(METHODS[name])),
        )
    )


def example(method: Method) -> str:
    """The call in Python that the page shows."""
    arguments = f", {method.example}" if method.example else ""
    return f"server.{method.name}(session{arguments})"


def main(root: Path) -> None:
    """Write the page below a checkout."""
    (root / PAGE).write_text(page(), encoding="utf-8")


def _method(method: Method) -> Iterator[str]:
    alone = " For administrators alone." if method.admin else ""
    yield f"### {method.name}\n\n{method.does}{alone}\n"
    yield f"```python\n{example(method)}\n```\n"
    if method.parameters:
        yield "| Argument | Type | |\n|---|---|---|"
        yield from (_row(parameter) for parameter in method.parameters)
        yield ""
    yield f"Answers with: {method.returns.kind}. {method.returns.does}\n"
    if method.returns.members:
        yield "| Member | |\n|---|---|"
        yield from (f"| `{name}` | {does} |" for name, does in method.returns.members.items())
        yield from (
            f"| &nbsp;&nbsp;`{name}` | {does} |" for name, does in method.returns.inner.items()
        )
        yield ""


def _row(parameter: Parameter) -> str:
    note = "" if parameter.needed else " May be left out."
    return f"| `{parameter.name}` | {parameter.kind} | {parameter.does}{note} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
