"""The scheduler driver's side of oned 7, on the embedded cloud: it asks and executes."""

import base64
from typing import Any

from lxml import etree
from twisted.internet.defer import ensureDeferred

from merkatd.opennebula.driver.driver_answer import DriverAnswers
from tests.scheduler.frontend import Frontend

RUNNING, PENDING = ("3", "3"), ("1", "0")


class Oned:
    """Asks the frontend's scheduler as one_sched does."""

    def __init__(self, frontend: Frontend) -> None:
        self.frontend = frontend
        self.waits = True
        self.refused: list[int] = []

    def question(self, state: tuple[str, str], hosts: dict[int, list[int]] | None = None) -> bytes:
        """Return all VMs of a state with their matching hosts, by default all hosts."""
        ok = self.frontend.bench.ok
        pool = etree.fromstring(ok("one.vmpool.infoextended", -2, -1, -1, -1))
        vms = [vm for vm in pool if (vm.findtext("STATE"), vm.findtext("LCM_STATE")) == state]
        host_pool = ok("one.hostpool.info")
        every = [
            int(element.text or "") for element in etree.fromstring(host_pool).findall("HOST/ID")
        ]
        rows = ""
        for vm in vms:
            number = int(vm.findtext("ID", ""))
            ids = "".join(f"<ID>{host}</ID>" for host in (hosts or {}).get(number, every))
            rows += (
                f"<VM><ID>{number}</ID><HOSTS>{ids}</HOSTS><DATASTORES><ID>0</ID></DATASTORES></VM>"
            )
        text = (
            "<SCHEDULER_DRIVER_ACTION><VM_POOL>"
            + "".join(etree.tostring(vm, encoding="unicode") for vm in vms)
            + f"</VM_POOL>{host_pool}{ok('one.datastorepool.info')}<VNET_POOL></VNET_POOL>"
            f"<VM_GROUP_POOL/><CLUSTER_POOL></CLUSTER_POOL><REQUIREMENTS>{rows}</REQUIREMENTS>"
            "</SCHEDULER_DRIVER_ACTION>"
        )
        return base64.b64encode(text.encode())

    def ask(self, cluster: int | None, question: bytes) -> str:
        """Return the daemon's answer."""
        driver = DriverAnswers(self.frontend.scheduler)
        answer: str = self.frontend.result(
            ensureDeferred(driver.answer(cluster, question, lambda: self.waits))
        )
        self.frontend.clock.advance(1)
        return answer

    def place(self, hosts: dict[int, list[int]] | None = None, *, lost: bool = False) -> Any:
        """Ask for places and execute the plan, unless it is lost."""
        plan = self.plan(self.ask(None, self.question(PENDING, hosts)))
        if not lost:
            self.carry_out(plan)
        return plan

    def optimize(self, cluster: int) -> Any:
        """Ask for migrations and execute them."""
        plan = self.plan(self.ask(cluster, self.question(RUNNING)))
        self.carry_out(plan)
        return plan

    def plan(self, answer: str) -> Any:
        """Return the last line of an answer, parsed."""
        return etree.fromstring(answer.splitlines()[-1])

    def carry_out(self, plan: Any) -> None:
        """Act as the plan manager: deploy only if oned's own account has room."""
        for action in plan.findall("ACTION"):
            vm, host, store = (int(action.findtext(f"{name}_ID")) for name in ("VM", "HOST", "DS"))
            if action.findtext("OPERATION") == "deploy":
                answer = self.frontend.bench.raw("one.vm.deploy", vm, host, True, store)
            else:
                answer = self.frontend.bench.raw("one.vm.migrate", vm, host, True, False, store)
            if not answer[0]:
                self.refused.append(vm)
            self.frontend.clock.advance(2)
