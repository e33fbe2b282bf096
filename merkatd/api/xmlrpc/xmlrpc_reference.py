"""The reference page of the tenants' interface; `python -m` with this module's name writes it."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from merkatd.api.xmlrpc.errors import Code, FaultCode
from merkatd.api.xmlrpc.method_table import Method, Parameter
from merkatd.api.xmlrpc.methods import METHODS

PAGE = "docs/xmlrpc.md"

_HEAD = """\
# The XML-RPC interface

For tenants that write programs. At the end a program of yours calls the daemon, in any language.

Tenants and administrators call the daemon over XML-RPC, at the path `/RPC2`. As in OpenNebula, the
first argument of each call is the session string: `user:password` or `user:token`. OpenNebula
checks it. The file `merkat_xmlrpc` in the daemon's state directory contains the address. The
section [`[api]`](configuration.md#api) of the configuration sets the address, the certificate and
the limits. `python -m merkatd.api.xmlrpc.xmlrpc_reference` generates this page from the code.

```python
import xmlrpc.client

server = xmlrpc.client.ServerProxy("http://localhost:2634/RPC2")
success, value, code = server.merkat.price.info("ann:secret")[:3]
```

Python programs can use the library `merkatd.client` instead; it needs only the standard library. It
reads the address from the environment variable `MERKAT_XMLRPC` or the file `~/.one/merkat_xmlrpc`.
It reads the login from the file that `ONE_AUTH` names, or from `~/.one/one_auth`. It raises a
separate exception for each error code:

```python
from merkatd.client import Merkat

with Merkat() as merkat:
    quote = merkat.quote_for(7, cpu=150.0)
    if quote.cost is not None and quote.cost < 10.0:
        merkat.bid(7, cpu=quote.resources[0].bid)
```

## Answers

- The answer to a successful call is `[true, value, 0]`.
- The answer to a failed call is `[false, "[method] reason", code, id]`. `id` is the id of the VM or
  the user that the call names, or -1.
- OpenNebula returns XML documents in strings. Merkat returns structs and arrays of XML-RPC, so
  clients need not parse XML. A member without a value is left out, because XML-RPC has neither null
  nor infinity.
- CPU is in percent of a core, memory in MiB, money in credits, and times are in seconds since the
  epoch. Numbers can be `int` or `double`. NaN, infinity and negative numbers are rejected.
- A request needs the header `Content-Length`, which XML-RPC libraries send. A request with
  `Transfer-Encoding` is rejected with status 411.

A failed call has one of these codes:
"""

_CODES: Mapping[Code, str] = {
    Code.AUTHENTICATION: "the login is invalid",
    Code.AUTHORIZATION: "the user has no permission for the call",
    Code.NO_EXISTS: "the VM, application or tenant does not exist",
    Code.ACTION: "not possible now: no period has ended yet, another call was faster, or there were"
    " too many calls; try again in a moment",
    Code.RPC_API: "an argument is invalid; the text names the accepted values",
    Code.INTERNAL: "the daemon, or the OpenNebula behind it, failed",
}
_FAULTS: Mapping[FaultCode, str] = {
    FaultCode.WRONG_TYPE: "an argument has the wrong type, or the call has too few or too many"
    " arguments",
    FaultCode.NO_CALL: "the call is not valid XML-RPC, has a document type, or is nested too deep",
    FaultCode.UNKNOWN_METHOD: "the method does not exist",
    FaultCode.TOO_LARGE: "the call is larger than `api.body`",
}

_RIGHTS = """\
## Permissions

- All users with a valid login can read prices, the order book, quotes for planned VMs, and the
  state of the daemon.
- The owner of a VM, and administrators (user 0 and the users of group 0), have all rights to it.
  For other users, the daemon asks OpenNebula with their login. A user that can see the VM (by its
  permissions or an ACL rule) can read its bid, quotes and explanation, but not its payer's balance.
  A user with the permission to manage it, by group or for others, can also change its bid.
- A limit order needs the permission to manage each of its VMs. Its owner, who pays, is the owner of
  its VMs. Only the owner and administrators see it in lists.
- Only the tenant and administrators can read an account, change an application's budget, and read
  or change a platform.
- The permissions of a group decide which users can use, manage and administer it.
- Only administrators can change the mode, approve plans, and pause the daemon. No call changes a
  weight: administrators use the command `merkatd tenant`.

The daemon stores OpenNebula's answer about a login for the time `api.login`, and then asks again.
So an old password can stay valid for that time after a change. The daemon stores a keyed hash of
the session string, never the string.

## Limits

- **Calls.** The calls of each user are limited (`api.user_calls`), and the calls of unknown users
  from each address (`api.address_calls`). A large call counts as several: each 4 KiB of a known
  user's call, and each KiB of other calls, count as another call. A call over the limit is rejected
  half a second later. Its connection reads the next call only after that.
- **Orders.** Orders leave data in the database, so their number per hour is limited
  (`api.user_orders`). Twenty bids count as one order, and so do twenty VMs of limit orders.
- **Wrong passwords.** After five wrong passwords, the user must wait before the next call from the
  same address: a second at first, at most a minute. Calls from other addresses do not wait, and
  neither do calls with a login that was accepted in the last hour. The answer to a wrong password
  takes half a second or a multiple of it, so its time does not reveal whether the user exists.
- **Proxies.** If the daemon is behind a proxy, set `api.trusted_proxies`: then the address in the
  proxy's `X-Forwarded-For` counts. Such an address can have at most `api.connections_per_address`
  unanswered calls at a time. Further calls are rejected at once, and their connections are closed.
"""

_METHODS = """\
## Methods

In the examples, `session` is the session string. `vm`, `application`, `platform` and `group` are
ids of the caller's VM, application, platform and group. `plan` is the number of the waiting plan,
`template` the text of a platform's [template](platforms.md), and `vm_template` the text of a VM
template. In the tables, `vms[].cpu` is the member `cpu` of each struct in the array `vms`.
"""


def page() -> str:
    """Return the text of the page."""
    places = _places()
    return "\n".join(
        (
            _HEAD,
            "| Code | Meaning |\n|---|---|",
            *(f"| {code} | {does} |" for code, does in _CODES.items()),
            "\nThe answer to an invalid call is a fault:\n",
            "| Fault | Meaning |\n|---|---|",
            *(f"| {code} | {does} |" for code, does in _FAULTS.items()),
            "",
            _RIGHTS,
            _METHODS,
            *(line for name in sorted(METHODS) for line in _method(METHODS[name], places)),
        )
    )


def example(method: Method) -> str:
    """Return the method's example call in Python."""
    arguments = f", {method.example}" if method.example else ""
    return f"server.{method.name}(session{arguments})"


def main(root: Path) -> None:
    """Write the page into a checkout of the repository."""
    (root / PAGE).write_text(page(), encoding="utf-8")


_Struct = tuple[tuple[tuple[str, str], ...], ...]
"""The members of a struct, and of the structs inside it."""


def _struct_of(method: Method) -> _Struct:
    returns = method.returns
    return tuple(returns.members.items()), tuple(returns.inner.items())


def _places() -> Mapping[_Struct, str]:
    """Return the method that describes each struct: the first of those that return the struct.

    A method `info` comes before the others.
    """
    places: dict[_Struct, str] = {}
    for name in sorted(METHODS, key=lambda name: (not name.endswith(".info"), name)):
        places.setdefault(_struct_of(METHODS[name]), name)
    return places


def _method(method: Method, places: Mapping[_Struct, str]) -> Iterator[str]:
    alone = " For administrators only." if method.admin else ""
    yield f"### {method.name}\n\n{method.does}{alone}\n"
    yield f"```python\n{example(method)}\n```\n"
    if method.parameters:
        yield "| Argument | Type | Meaning |\n|---|---|---|"
        yield from (_row(parameter) for parameter in method.parameters)
        yield ""
    returns, place = method.returns, places[_struct_of(method)]
    elsewhere = returns.members and place != method.name
    link = f" [{place}](#{place.replace('.', '')}) describes its members." if elsewhere else ""
    yield f"Returns: {returns.kind}. {returns.does}{link}\n"
    if returns.members and not elsewhere:
        yield "| Member | Meaning |\n|---|---|"
        for name, does in returns.members.items():
            yield _member(name, does)
            if does.endswith(":"):
                yield from (
                    _member(f"{name}[].{inner}", does) for inner, does in returns.inner.items()
                )
        yield ""


def _member(name: str, does: str) -> str:
    return f"| `{name}` | {does.replace('|', chr(92) + '|')} |"


def _row(parameter: Parameter) -> str:
    note = "" if parameter.needed else " Optional."
    return f"| `{parameter.name}` | {parameter.kind} | {parameter.does}{note} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
