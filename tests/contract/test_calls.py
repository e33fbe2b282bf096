"""Answers to calls: their forms, their codes, and the server's facts about itself."""

from __future__ import annotations

import xmlrpc.client
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.endpoint import SMALL, State
from tests.contract.ways import DONE, PENDING, RUNNING, SUSPENDED

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

NOBODY = 987654
"""An id that no object has."""

AUTHENTICATION, AUTHORIZATION, NO_EXISTS = 256, 512, 1024
ACTION, RPC_API, INTERNAL, ALLOCATE = 2048, 4096, 8192, 16384
UNKNOWN_METHOD, WRONG_TYPE = -506, -501


def test_success_is_true_the_value_and_zero(endpoint: Endpoint) -> None:
    """The calls answer with a text, with a number, or without a value."""
    vm = endpoint.new()
    for method, *arguments in (
        ("one.vm.info", vm),
        ("one.vm.update", vm, "A=1", 1),
        ("one.hostpool.info",),
        ("one.system.version",),
    ):
        success, value, code, *rest = endpoint.raw(method, *arguments)
        assert (success, code) == (True, 0)
        assert isinstance(value, str | int)
        assert rest in ([], [-1, -1])


def test_failure_is_false_a_text_a_code_and_the_object(endpoint: Endpoint) -> None:
    """The answer has five elements; the text names the call in brackets."""
    success, text, code, oid, server = endpoint.raw("one.vm.info", NOBODY)
    assert (success, code, oid, server) == (False, NO_EXISTS, NOBODY, -1)
    assert text == f"[one.vm.info] Error getting virtual machine [{NOBODY}]."


@pytest.mark.parametrize("session", ["nobody:pw", "oneadmin:wrong", "oneadmin", ""])
def test_unknown_logins_are_refused(endpoint: Endpoint, session: str) -> None:
    """The code is 256, and the text gives no reason."""
    answer = endpoint.run(endpoint.transport.call("one.vmpool.info", session, -2, -1, -1, -1))
    assert answer[0] is False
    assert answer[1:3] == [
        "[one.vmpool.info] User couldn't be authenticated, aborting call.",
        AUTHENTICATION,
    ]


@pytest.mark.parametrize("method", ["one.vm.frobnicate", "one.", "vm.info"])
def test_unknown_methods_are_faults_of_xml_rpc(endpoint: Endpoint, method: str) -> None:
    """They are not refusals: the code is -506."""
    with pytest.raises(xmlrpc.client.Fault) as caught:
        endpoint.raw(method, 1)
    assert caught.value.faultCode == UNKNOWN_METHOD


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("one.vm.info", ("text",)),
        ("one.vm.info", ()),
        ("one.vm.deploy", (0,)),
        ("one.vm.deploy", ("0", 0)),
        ("one.vm.migrate", (0, 0)),
        ("one.vm.action", (0, "hold")),
        ("one.vm.recover", (0, "2")),
        ("one.vm.update", (0, 7, 1)),
        ("one.vmpool.infoextended", (-2, -1, -1)),
        ("one.host.update", (0,)),
        ("one.host.allocate", ("name", "dummy", "dummy")),
    ],
)
def test_wrong_types_are_faults_of_xml_rpc(
    endpoint: Endpoint, method: str, arguments: tuple[Any, ...]
) -> None:
    """The same holds for missing arguments: the code is -501."""
    with pytest.raises(xmlrpc.client.Fault) as caught:
        endpoint.raw(method, *arguments)
    assert caught.value.faultCode == WRONG_TYPE


NOT_THERE = [
    ("one.vm.info", (NOBODY,), "virtual machine"),
    ("one.vm.deploy", (NOBODY, -1), "virtual machine"),
    ("one.vm.migrate", (NOBODY, -1, True), "virtual machine"),
    ("one.vm.action", ("suspend", NOBODY), "virtual machine"),
    ("one.vm.recover", (NOBODY, 2), "virtual machine"),
    ("one.vm.update", (NOBODY, "A=1", 1), "virtual machine"),
    ("one.vm.updateconf", (NOBODY, "A=1"), "virtual machine"),
    ("one.vm.resize", (NOBODY, "CPU=1", False), "virtual machine"),
    ("one.vm.chown", (NOBODY, 0, 0), "virtual machine"),
    ("one.vm.lock", (NOBODY, 4, False), "virtual machine"),
    ("one.host.info", (NOBODY,), "host"),
    ("one.host.status", (NOBODY, 0), "host"),
    ("one.host.update", (NOBODY, "A=1", 1), "host"),
    ("one.user.info", (NOBODY,), "user"),
    ("one.user.update", (NOBODY, "A=1", 1), "user"),
    ("one.group.info", (NOBODY,), "group"),
    ("one.cluster.info", (NOBODY,), "cluster"),
    ("one.datastore.info", (NOBODY,), "datastore"),
    ("one.vmgroup.info", (NOBODY,), "VM group"),
]


@pytest.mark.parametrize(("method", "arguments", "what"), NOT_THERE)
def test_missing_objects_are_refused_with_1024(
    endpoint: Endpoint, method: str, arguments: tuple[Any, ...], what: str
) -> None:
    """The text names the kind and the id."""
    given = tuple(endpoint.hosts[0] if item == -1 else item for item in arguments)
    code, text = endpoint.refused(method, *given)
    assert code == NO_EXISTS
    assert text.lower() == f"[{method}] error getting {what} [{NOBODY}].".lower()


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("one.vm.deploy", ()), ("one.vm.migrate", (True,))],
)
def test_hosts_and_datastores_must_exist(
    endpoint: Endpoint, method: str, arguments: tuple[Any, ...]
) -> None:
    """Deploy and migrate answer 1024 with the id of the host or datastore."""
    vm = endpoint.new() if method == "one.vm.deploy" else endpoint.running()
    assert endpoint.refused(method, vm, NOBODY, *arguments) == (
        NO_EXISTS,
        f"[{method}] Error getting host [{NOBODY}].",
    )
    code, text = endpoint.refused(method, vm, endpoint.hosts[1], *arguments, False, NOBODY)
    assert code == NO_EXISTS
    assert text == f"[{method}] Error getting datastore [{NOBODY}]."


def test_only_system_datastores_take_vms(endpoint: Endpoint) -> None:
    """An image datastore is refused with 8192."""
    vm = endpoint.new()
    code, text = endpoint.refused("one.vm.deploy", vm, endpoint.hosts[0], False, 1)
    assert code == INTERNAL
    assert "is not of type system datastore" in text


WRONG = [
    *[(verb, PENDING) for verb in ("suspend", "resume", "stop", "undeploy", "poweroff", "resched",
                                   "unresched", "release", "reboot")],
    *[(verb, RUNNING) for verb in ("resume", "hold", "release")],
    *[(verb, SUSPENDED) for verb in ("suspend", "hold")],
    *[(verb, DONE) for verb in ("resume", "stop", "hold")],
]  # fmt: skip
NAMES = {PENDING: "PENDING", RUNNING: "RUNNING", SUSPENDED: "SUSPENDED", DONE: "DONE"}


@pytest.mark.parametrize("state", [PENDING, RUNNING, SUSPENDED, DONE])
def test_a_wrong_state_is_refused_with_2048(endpoint: Endpoint, state: State) -> None:
    """The text names the action and the state; the state is unchanged."""
    vm = endpoint.in_state(state)
    for action in (action for action, where in WRONG if where == state):
        assert endpoint.refused("one.vm.action", action, vm) == (
            ACTION,
            (
                f'[one.vm.action] Error performing action "{action}": '
                f"This action is not available for state {NAMES[state]}"
            ),
        )
    assert endpoint.state(vm) == state


def test_deploy_and_migrate_are_refused_in_a_wrong_state(endpoint: Endpoint) -> None:
    """They answer 2048 for a wrong state, and for a migration to the VM's own host."""
    pending, running = endpoint.new(), endpoint.running()
    other, own = endpoint.hosts[1], endpoint.hosts[0]
    code, text = endpoint.refused("one.vm.deploy", running, other)
    assert (code, text) == (
        ACTION,
        "[one.vm.deploy] Deploy action is not available for state RUNNING",
    )
    code, text = endpoint.refused("one.vm.migrate", pending, other, True)
    assert (code, text) == (
        ACTION,
        "[one.vm.migrate] Migrate action is not available for state PENDING",
    )
    code, text = endpoint.refused("one.vm.migrate", running, own, True)
    assert code == ACTION
    assert "already running on host" in text


def test_unknown_words_and_numbers_are_refused(endpoint: Endpoint) -> None:
    """Actions and recoveries answer 2048, updates and filters 4096."""
    vm = endpoint.running()
    code, text = endpoint.refused("one.vm.action", "frobnicate", vm)
    assert (code, text) == (ACTION, '[one.vm.action] Action "frobnicate" is not supported')
    assert endpoint.refused("one.vm.recover", vm, 17)[0] == ACTION
    assert endpoint.refused("one.vm.update", vm, "A=1", 17)[0] == RPC_API
    assert endpoint.refused("one.vmpool.infoextended", -17, -1, -1, -1)[0] == RPC_API
    assert endpoint.refused("one.host.status", endpoint.hosts[0], 17)[0] == INTERNAL


@pytest.mark.parametrize("template", ["A=[B", "A", "A=b c", "=", "<TEMPLATE><A>", 'A="]]>"'])
def test_unreadable_templates_are_refused(endpoint: Endpoint, template: str) -> None:
    """Every call answers 8192, except for `vm.update` with 2048."""
    vm = endpoint.new()
    for expected, method, *arguments in (
        (INTERNAL, "one.vm.allocate", template),
        (ACTION, "one.vm.update", vm, template, 1),
        (INTERNAL, "one.host.update", endpoint.hosts[0], template, 1),
        (INTERNAL, "one.user.update", 0, template, 1),
        (INTERNAL, "one.vm.resize", vm, template, False),
    ):
        code, text = endpoint.refused(method, *arguments)
        assert code == expected, text
        assert "Parse error" in text


def test_objects_with_invalid_values_are_refused(endpoint: Endpoint) -> None:
    """A used name or missing driver answers 8192, for hosts 16384 from 7.0 on."""
    changed = endpoint.version >= (7, 0)
    name = endpoint.xml("one.host.info", endpoint.hosts[0]).findtext("NAME")
    taken = f"NAME is already taken by HOST {endpoint.hosts[0]}."
    for arguments, why in (
        (("host", name, "dummy", "dummy", -1), taken),
        (("host", endpoint.name(), "", "dummy", -1), "IM_MAD_NAME cannot be empty."),
        (("user", "oneadmin", "pw", "core"), "NAME is already taken by USER 0."),
        (("user", "a:b", "pw", "core"), "Invalid NAME, char ':' is not allowed."),
        (("user", "ann", "", "core"), "Invalid password, it cannot be empty."),
        (("group", "users"), "NAME is already taken by GROUP 1."),
    ):
        kind, *given = arguments
        method = f"one.{kind}.allocate"
        new = changed and kind == "host"
        refusal = f"Error allocating a new host. {why}" if new else why
        assert endpoint.refused(method, *given) == (
            ALLOCATE if new else INTERNAL,
            f"[{method}] {refusal}",
        )


def test_the_server_reports_its_version_and_configuration(endpoint: Endpoint) -> None:
    """It reports whether it leads too; ordinary users can read all but that."""
    words = endpoint.ok("one.system.version").split(".")
    assert len(words) >= 3
    assert all(word.isdigit() for word in words)
    raft = endpoint.xml("one.zone.raftstatus")
    assert raft.findtext("STATE") in {"0", "3"}
    assert int(raft.findtext("SERVER_ID") or "") >= -1
    config = endpoint.xml("one.system.config")
    assert config.tag in {"OPENNEBULA_CONFIGURATION", "TEMPLATE"}
    assert int(float(config.findtext("MONITORING_INTERVAL_HOST") or "1")) >= 0
    restricted = {row.text for row in config.iterfind("VM_RESTRICTED_ATTR")}
    assert restricted
    user, session = endpoint.user()
    assert endpoint.xml("one.system.config", session=session).tag == config.tag
    # An account that may act only where the server leads needs a rule for this.
    assert endpoint.refused("one.zone.raftstatus", session=session) == (
        AUTHORIZATION,
        f"[one.zone.raftstatus] User [{user}] : Not authorized to perform ADMIN ZONE [0].",
    )


def test_a_vm_needs_its_sizes(endpoint: Endpoint) -> None:
    """Missing or non-positive sizes are refused with 8192 and use up no id."""
    before = endpoint.new()
    for template in (
        "MEMORY=64", "CPU=1", "CPU=0 MEMORY=64", "CPU=-1 MEMORY=64", "CPU=1 MEMORY=-64",
        "CPU=1 MEMORY=64 VCPU=0", "CPU=x MEMORY=64",
    ):  # fmt: skip
        code, text = endpoint.refused("one.vm.allocate", template.replace(" ", "\n"))
        assert code == INTERNAL, text
        assert "must be a positive" in text
    assert endpoint.new(SMALL) == before + 1
