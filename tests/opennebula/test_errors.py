"""Each answer that says no is an error of its own, which names call, object and oned's text."""

from typing import Any

import pytest

from merkatd.opennebula.rpc import errors
from merkatd.scheduler.base.ports import CloudUnreachableError
from tests.opennebula.worlds import ADMIN, SMALL, World


def failed(world: World, method: str, *arguments: Any, session: str = ADMIN) -> errors.OneError:
    """The error of a call that must fail."""
    with pytest.raises(errors.OneError) as raised:
        world.run(world.login(session).call(method, *arguments, about="it"))
    assert str(raised.value).startswith(f"{method} of it: ")
    return raised.value


def test_each_code_has_its_error(world: World) -> None:
    """As oned itself answers: nobody, no right, no object, no state, no template."""
    world.call("one.user.allocate", "ann", "pw")
    vm = world.new()
    assert type(failed(world, "one.vm.info", vm, session="x:y")) is errors.OneAuthenticationError
    forbidden = failed(world, "one.vm.deploy", vm, 0, session="ann:pw")
    assert type(forbidden) is errors.OneForbiddenError
    missing = failed(world, "one.vm.info", 99)
    assert type(missing) is errors.OneMissingError
    assert str(missing) == ("one.vm.info of it: Error getting virtual machine [99]. (code 1024)")
    assert type(failed(world, "one.vm.action", "resume", vm)) is errors.WrongStateError
    assert type(failed(world, "one.vm.update", vm, "A=1", 7)) is errors.OneBadCallError
    assert type(failed(world, "one.vm.allocate", "MEMORY=1")) is errors.OneInternalError


@pytest.mark.parametrize("code", [256, 512, 1024, 2048, 4096, 8192, 16384, 77])
def test_codes_on_order(world: World, code: int) -> None:
    """Those that are hard to provoke, and one that nobody knows."""
    world.fault("refuse", "one.vm.allocate", code=code, text="because", count=1)
    error = failed(world, "one.vm.allocate", SMALL)
    assert type(error) is errors.ERRORS.get(code, errors.OneError)
    assert (error.code, error.text) == (code, "because")
    assert world.observe().vm_id.tolist() == []


def test_calls_that_xmlrpc_refuses(world: World) -> None:
    """Unknown names, wrong types, and what can't be carried: nothing was called."""
    for method, arguments in [
        ("one.no.such", ()),
        ("one.vm.info", ("0",)),
        ("one.vm.allocate", ("NAME=\x01",)),
        ("one.vm.info", (2**31,)),
    ]:
        assert type(failed(world, method, *arguments)) is errors.OneBadCallError


@pytest.mark.parametrize("reply", [[], [True], "x", None, [1, 2, 3], [False, "no", "code"]])
def test_what_is_no_answer_of_oned(reply: object) -> None:
    """Nobody knows what was done."""
    with pytest.raises(CloudUnreachableError, match=r"one\.x of VM 3: not an answer of oned"):
        errors.value_of(reply, "one.x", "VM 3")
