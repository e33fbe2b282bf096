"""The reference page of the tenants' interface; `python -m` with this module's name writes it."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from merkatd.api.xmlrpc.errors import Code, FaultCode
from merkatd.api.xmlrpc.method_table import Method, Parameter
from merkatd.api.xmlrpc.methods import METHODS

PAGE = "docs/xmlrpc.md"

_HEAD = """\
# The tenants' interface

`merkatd` answers XML-RPC calls at `/RPC2`, in the style of OpenNebula: the first argument of every
call is the session string, `user:password` or `user:token`, and OpenNebula checks it. The file
`merkat_xmlrpc` in the daemon's state directory contains the address. The section `[api]` of the
configuration sets the address, the certificate and the limits. The command
`python -m merkatd.api.xmlrpc.xmlrpc_reference` generates this page from the code.

```python
import xmlrpc.client

server = xmlrpc.client.ServerProxy("http://localhost:2634/RPC2")
success, value, code = server.merkat.price.info("ann:secret")[:3]
```

For Python programs, `merkatd.client` is easier; it needs only the standard library. It reads the
address from MERKAT_XMLRPC or `~/.one/merkat_xmlrpc`, and the login from the file in ONE_AUTH or
from `~/.one/one_auth`. It raises a separate exception for each code:

```python
from merkatd.client import Merkat

with Merkat() as merkat:
    quote = merkat.quote_for(7, cpu=150.0)
    if quote.cost is not None and quote.cost < 10.0:
        merkat.bid(7, cpu=quote.resources[0].bid)
```

## Answers

The answer to a successful call is `[true, value, 0]`. The answer to a failed call is
`[false, "[method] reason", code, id]`, with the id of the VM or user of the call, or -1.
OpenNebula returns XML documents in strings. Merkat returns structs and arrays of XML-RPC, so that
a client gets typed values from its XML-RPC library without parsing XML itself. A member without a
value is left out, because XML-RPC has neither null nor infinity.

A request must have a `Content-Length`, as XML-RPC libraries send it; a request with
`Transfer-Encoding` is rejected with status 411.

CPU is in percent of a core, memory in MiB, money in credits, and times are in seconds since the
epoch. Numbers can be `int` or `double`; NaN, infinity and negative numbers are rejected.
"""

_CODES: Mapping[Code, str] = {
    Code.AUTHENTICATION: "the login is invalid",
    Code.AUTHORIZATION: "the user has no permission for this",
    Code.NO_EXISTS: "the VM, application or tenant does not exist",
    Code.ACTION: "not possible now: no period has ended yet, another call was faster, or there were"
    " too many calls; try again in a moment",
    Code.RPC_API: "an argument is invalid; the text names the accepted values",
    Code.INTERNAL: "the daemon, or the OpenNebula behind it, failed",
}
_FAULTS: Mapping[FaultCode, str] = {
    FaultCode.WRONG_TYPE: "an argument has the wrong type, or there are too few or too many",
    FaultCode.NO_CALL: "the call is not valid XML-RPC, has a document type, or is nested too deep",
    FaultCode.UNKNOWN_METHOD: "the method does not exist",
    FaultCode.TOO_LARGE: "the call is larger than `api.body`",
}

_RIGHTS = """\
## Permissions

- All users with a valid login can read prices, quotes for planned VMs, and the state of the daemon.
- The owner of a VM, and administrators (user 0 and the users of group 0), have all rights to it.
  For other users, the daemon asks OpenNebula with their login. A user that can see the VM (by its
  permissions or an ACL rule) can read its bid, quotes and explanation, but not its payer's balance.
  A user with the permission to manage it, by group or for others, can also change its bid.
- Only the tenant and administrators can read an account, change an application's budget, and read
  or change a platform.
- The permissions of a group decide on its use.
- Only administrators can change the mode, approve plans, and pause the daemon. They set weights
  with `merkatd tenant`.

The daemon stores OpenNebula's answer about a login for `api.login` and then asks again, so a
changed password stays valid for that time. It stores a keyed hash of the session string, never the
string.

Calls are limited per user (`api.user_calls`), and calls of unknown users per address
(`api.address_calls`). A large call counts as several: each 4 KiB of a known user's call, and each
KiB of other calls, count as another call. A call over the limit is rejected half a second later,
and its connection reads the next call only after that. Orders leave data in the database and are
limited per hour (`api.user_orders`).

After five wrong passwords, the same user has to wait at the same address: a second at first, at
most a minute. There is no wait at other addresses, or with a login that was accepted in the last
hour. The answer to a wrong password comes after half a second or a multiple of it, so the time does
not reveal whether the user exists.

If the daemon is behind a proxy, set `api.trusted_proxies`: then the address in the proxy's
`X-Forwarded-For` counts. Such an address can have at most `api.connections_per_address` unanswered
calls at a time; further calls are rejected at once, and their connections closed.
"""

_METHODS = """\
## Methods

In the examples, `session` is the session string. `vm`, `application`, `platform` and `group` are
ids of the caller's VM, application, platform and group. `plan` is the number of the waiting plan,
`template` the text of a platform's template (docs/platforms.md), and `vm_template` the text of a VM
template.
"""


def page() -> str:
    """Return the text of the page."""
    return "\n".join(
        (
            _HEAD,
            "| Code | |\n|---|---|",
            *(f"| {code} | {does} |" for code, does in _CODES.items()),
            "\nThe answer to an invalid call is a fault:\n",
            "| Fault | |\n|---|---|",
            *(f"| {code} | {does} |" for code, does in _FAULTS.items()),
            "",
            _RIGHTS,
            _METHODS,
            *(line for name in sorted(METHODS) for line in _method(METHODS[name])),
        )
    )


def example(method: Method) -> str:
    """Return the method's example call in Python."""
    arguments = f", {method.example}" if method.example else ""
    return f"server.{method.name}(session{arguments})"


def main(root: Path) -> None:
    """Write the page into a checkout of the repository."""
    (root / PAGE).write_text(page(), encoding="utf-8")


def _method(method: Method) -> Iterator[str]:
    alone = " For administrators only." if method.admin else ""
    yield f"### {method.name}\n\n{method.does}{alone}\n"
    yield f"```python\n{example(method)}\n```\n"
    if method.parameters:
        yield "| Argument | Type | |\n|---|---|---|"
        yield from (_row(parameter) for parameter in method.parameters)
        yield ""
    yield f"Returns: {method.returns.kind}. {method.returns.does}\n"
    if method.returns.members:
        yield "| Member | |\n|---|---|"
        yield from (f"| `{name}` | {does} |" for name, does in method.returns.members.items())
        yield from (
            f"| &nbsp;&nbsp;`{name}` | {does} |" for name, does in method.returns.inner.items()
        )
        yield ""


def _row(parameter: Parameter) -> str:
    note = "" if parameter.needed else " Optional."
    return f"| `{parameter.name}` | {parameter.kind} | {parameter.does}{note} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
