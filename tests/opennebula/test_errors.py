"""Each error answer is an error class that names call, object and oned's text."""

from typing import Any

import pytest

from merkatd.opennebula.rpc import errors
from merkatd.scheduler.base.ports import CloudUnreachableError
from tests.opennebula.worlds import ADMIN, SMALL, World


def failed(world: World, method: str, *arguments: Any, session: str = ADMIN) -> errors.OneError:
    """Return the error of a call that must fail."""
    with pytest.raises(errors.OneError) as raised:
        world.run(world.login(session).call(method, *arguments, about="it"))
    assert str(raised.value).startswith(f"{method} of it: ")
    return raised.value


def test_each_code_has_its_error(world: World) -> None:
    """The errors are login, right, object, state and template, as oned returns them."""
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
def test_injected_codes_have_their_errors(world: World, code: int) -> None:
    """These are hard to provoke, and one of them is unknown."""
    world.fault("refuse", "one.vm.allocate", code=code, text="because", count=1)
    error = failed(world, "one.vm.allocate", SMALL)
    assert type(error) is errors.ERRORS.get(code, errors.OneError)
    assert (error.code, error.text) == (code, "because")
    assert world.observe().vm_id.tolist() == []


def test_xmlrpc_faults_are_bad_calls(world: World) -> None:
    """Unknown names, wrong types and uncarriable values cause no call."""
    for method, arguments in [
        ("one.no.such", ()),
        ("one.vm.info", ("0",)),
        ("one.vm.allocate", ("NAME=\x01",)),
        ("one.vm.info", (2**31,)),
    ]:
        assert type(failed(world, method, *arguments)) is errors.OneBadCallError


@pytest.mark.parametrize("reply", [[], [True], "x", None, [1, 2, 3], [False, "no", "code"]])
def test_an_invalid_answer_leaves_the_outcome_unknown(reply: object) -> None:
    """The error says that it is not an answer of oned."""
    with pytest.raises(CloudUnreachableError, match=r"one\.x of VM 3: not an answer of oned"):
        errors.value_of(reply, "one.x", "VM 3")
