"""Unsupported templates are rejected at submission, with the supported values."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from merkatd.base.parameter_bounds import NUMBERS
from merkatd.bus.platform_processes import PlatformProcesses
from merkatd.bus.settings import BusSettings
from merkatd.fleets.vm_template_text import TemplateError
from merkatd.platforms.lifecycle import template_checks as fitting_module
from merkatd.platforms.lifecycle.template_reader import read_template
from merkatd.platforms.tenant_orders import OrderError
from merkatd.protocol.platform_messages import Kinds, SetBids
from merkatd.scheduler.base.settings import GoodsSettings
from merkatd.service.base.callers import LOCAL
from tests.platforms.site import VM, Site, platforms_at, template
from tests.scheduler.beside import Beside

CLUSTER = f'[[cluster]]\nname = "nodes"\ntemplate = """\n{VM}"""'


class TestKinds:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"controller": '[controller]\nkind = "notse"'},
                r"controller.kind is unknown \(got 'notse'\); accepted: notes, none",
            ),
            (
                {"cluster": f'{CLUSTER}\n[cluster.monitor]\nkind = "stepps"'},
                r"cluster\[1\].monitor.kind is unknown \(got 'stepps'\); accepted: steps",
            ),
            (
                {"controller": '[controller]\nkind = "elastic"\nparameters = { worker = "one" }'},
                r"controller.parameters: worker must have \{vm\} once",
            ),
            (
                {"top": 'name = "a"\nmarket = "spot"'},
                r"market is unknown \(got 'spot'\); accepted: default",
            ),
            (
                {"start": "[start.price_ceiling]\nnetwork = 1"},
                r"start.price_ceiling.network: must be a good that is sold here \(cpu, memory\)",
            ),
            (
                {"cluster": f"{CLUSTER}\n[cluster.ceiling]\ndisk = 1"},
                r"cluster\[1\].ceiling.disk: must be a good that is sold",
            ),
        ],
    )
    def test_unsupported_kinds_are_rejected(
        self, site: Site, changes: dict[str, str], message: str
    ) -> None:
        """Nothing is stored, and no credits move."""
        before = site.balances()[site.ann]
        with pytest.raises(TemplateError, match=message):
            site.submit(None, **changes)
        assert site.balances()[site.ann] == before

    def test_all_problems_are_reported_at_once(self, site: Site) -> None:
        """The tenant can correct all of them together."""
        with pytest.raises(TemplateError) as raised:
            site.submit(
                controller='[controller]\nkind = "x"', start="[start.price_ceiling]\ndisk = 1"
            )
        assert len(raised.value.problems) == 2


class TestBatchSystems:
    """`elastic` manages a head and its workers, and nothing else."""

    QUEUE = "[cluster.monitor]\nkind = 'queue'"
    STEPS = "[cluster.monitor]\nkind = 'steps'\nparameters = { log = 'l' }"
    MINE = "[cluster.monitor]\nkind = 'mine'"
    MAUI = f"{QUEUE}\nparameters = {{ batch = 'maui' }}"
    NODES = f"{QUEUE}\nparameters = {{ worker = 'node-{{vm}}' }}"
    GRID = f"{QUEUE}\nparameters = {{ batch = 'gridengine', worker = 'node-{{vm}}' }}"

    @pytest.fixture
    def offering(self, site: Site) -> Site:
        """Return a site with a monitor of its own."""
        site.notes.offered = Kinds(("elastic", "notes"), ("mine", "queue", "steps"))
        return site

    def submit(self, site: Site, parameters: str = "", **monitors: str) -> int:
        """Submit clusters of these names with their monitors."""
        return site.submit(
            controller=f'[controller]\nkind = "elastic"\nparameters = {{ {parameters} }}',
            cluster="\n".join(
                CLUSTER.replace('"nodes"', f'"{name}"') + f"\n{monitor}"
                for name, monitor in monitors.items()
            ),
        )

    @pytest.mark.parametrize(
        ("monitors", "parameters", "message"),
        [
            (
                {"head": QUEUE, "workers": "", "storage": ""},
                "",
                r"^cluster 'storage': .* can have only the clusters 'head' and 'workers'$",
            ),
            ({"head": STEPS, "workers": ""}, "", r"'head': its monitor must be of kind queue"),
            ({"head": "", "workers": QUEUE}, "", r"'head': its monitor must be of kind queue"),
            ({"head": QUEUE}, "", r"^cluster 'workers' is missing \(got head\)$"),
            (
                {"head": QUEUE, "workers": ""},
                'head = "master"',
                r"^cluster 'master' is missing \(got head, workers\)$",
            ),
            (
                {"head": QUEUE, "workers": ""},
                'workers = "head"',
                "'head' can't be both the head and the workers",
            ),
            (
                {"head": QUEUE, "workers": ""},
                "worker = 'node-{vm}'",
                r"^controller.parameters.worker must .* \(got 'node-\{vm\}' and 'one-\{vm\}'\)$",
            ),
            (
                {"head": NODES, "workers": ""},
                "",
                r"cluster 'head' \(got 'one-\{vm\}' and 'node-\{vm\}'\)$",
            ),
            (
                {"head": QUEUE, "workers": ""},
                "batch = 'gridengine'",
                r"batch must .* cluster 'head' \(got 'gridengine' and 'slurm'\)$",
            ),
            (
                {"head": MAUI, "workers": ""},
                "batch = 'maui'",
                r"^controller.parameters.batch must be one of slurm, gridengine \(got 'maui'\)$",
            ),
            (
                {"head": MAUI, "workers": ""},
                "",
                r"^cluster\[1\].monitor.parameters.batch must be one of .* \(got 'maui'\)$",
            ),
            (
                {"head": QUEUE, "workers": ""},
                "aim = 'least wait'",
                r"^controller.parameters.aim must be one of .* \(got 'least wait'\)$",
            ),
        ],
    )
    def test_unsupported_batch_systems_are_rejected(
        self, offering: Site, monitors: dict[str, str], parameters: str, message: str
    ) -> None:
        """They would cost credits without use, or fail repeatedly."""
        with pytest.raises(TemplateError, match=f"(?m){message}"):
            self.submit(offering, parameters, **monitors)

    @pytest.mark.parametrize(
        ("monitors", "parameters"),
        [
            ({"head": QUEUE, "workers": ""}, ""),
            ({"head": MINE, "workers": STEPS}, ""),
            ({"master": QUEUE, "nodes": ""}, 'head = "master", workers = "nodes"'),
            ({"head": GRID, "workers": ""}, "batch = 'gridengine', worker = 'node-{vm}'"),
            ({"head": QUEUE, "workers": ""}, "batch = 'slurm', aim = 'wait'"),
            ({"head": MINE, "workers": ""}, "batch = 'gridengine'"),
        ],
    )
    def test_supported_batch_systems_are_accepted(
        self, offering: Site, monitors: dict[str, str], parameters: str
    ) -> None:
        """Names are free, and a site's own monitor may read a queue too."""
        assert self.submit(offering, parameters, **monitors)


class TestMonitors:
    MONITOR = "[cluster.monitor]\nkind = 'steps'\nparameters"

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ('{ log = "l", pattern = "(?P<step>a)(?=b)" }', "invalid perl operator"),
            ('{ log = "l", pattern = "a" }', "needs a group"),
            ('{ log = "l", worker = "{vm}{vm}" }', r"must have \{vm\} once"),
            ('{ log = "l", address = "192.0.2.1" }', r"allows '10.0.0.\{vm\}'"),
        ],
    )
    def test_invalid_parameters_of_a_monitor_are_rejected(
        self, site: Site, parameters: str, message: str
    ) -> None:
        """They are found at submission instead of in the monitor's log."""
        site.notes.offered = replace(site.notes.offered, addresses=("10.0.0.{vm}",))
        with pytest.raises(TemplateError, match=message):
            site.submit(cluster=f"{CLUSTER}\n{self.MONITOR} = {parameters}")
        site.submit(
            cluster=f'{CLUSTER}\n{self.MONITOR} = {{ log = "l", address = "10.0.0.{{vm}}" }}'
        )


class TestNumbers:
    """Parameters reach processes that run beside the daemon, so each number has bounds."""

    @pytest.mark.parametrize("every_s", ["0", "-1", "1e-9", "1e300", "true", "'20'", "[1]"])
    @pytest.mark.parametrize("kind", ["steps", "mine"])
    def test_a_monitor_has_a_shortest_interval(self, site: Site, kind: str, every_s: str) -> None:
        """It applies to a site's own monitors too, whose base class waits."""
        site.notes.offered = replace(site.notes.offered, monitors=("steps", "mine"))
        monitor = f"[cluster.monitor]\nkind = '{kind}'\nparameters"
        with pytest.raises(TemplateError, match=r"every_s must be a number between 1 and 86400"):
            site.submit(cluster=f"{CLUSTER}\n{monitor} = {{ every_s = {every_s} }}")
        site.submit(cluster=f"{CLUSTER}\n{monitor} = {{ every_s = 20 }}")

    @pytest.mark.parametrize("name", sorted(NUMBERS))
    def test_every_number_of_a_controller_has_bounds(self, site: Site, name: str) -> None:
        """A site's own controllers may use these names without bounds."""
        site.notes.offered = replace(site.notes.offered, controllers=("elastic", "notes"))
        for value in (-1, 9e14, '"many"', "true"):
            parameters = f"parameters = {{ {name} = {value} }}"
            with pytest.raises(TemplateError, match=rf"controller.parameters.{name} must be"):
                site.submit(controller=f'[controller]\nkind = "elastic"\n{parameters}')
        site.submit(controller=f'[controller]\nkind = "notes"\nparameters = {{ {name} = -1 }}')


class TestWeight:
    """The stored size of a template in memory is limited for every kind of controller."""

    @pytest.mark.parametrize("kind", ["none", "notes", "elastic"])
    def test_parameters_that_use_much_memory_are_rejected(self, site: Site, kind: str) -> None:
        """This holds for every kind, although this text has only 3 KB."""
        site.notes.offered = replace(site.notes.offered, controllers=("elastic", "notes"))
        parameters = f"[controller]\nkind = '{kind}'\nparameters = "
        with pytest.raises(
            TemplateError,
            match=r"^controller.parameters: all parameters up to here must .* \(got 294501\)",
        ):
            site.submit(controller=f"{parameters}{{ a = [{'{},' * 980}] }}")
        clusters = CLUSTER.replace("nodes", "head") + "\n[cluster.monitor]\nkind = 'steps'\n"
        if kind == "elastic":
            site.notes.offered = replace(site.notes.offered, monitors=("queue", "steps"))
            clusters = clusters.replace("steps", "queue")
        clusters += CLUSTER.replace("nodes", "workers")
        site.submit(controller=f"{parameters}{{ a = [{'{},' * 90}] }}", cluster=clusters)

    def test_parameters_of_monitors_count_together(self, site: Site) -> None:
        """Sixteen small ones are one large one, and the first beyond the bound is named."""
        tables = f"[{'{},' * 20}]"
        clusters = "\n".join(
            CLUSTER.replace("nodes", f"nodes{number}")
            + f"\n[cluster.monitor]\nkind = 'steps'\nparameters = {{ a = {tables} }}"
            for number in range(16)
        )
        with pytest.raises(
            TemplateError,
            match=r"^cluster\[5\].monitor.parameters: all parameters up .* \(got 32805\)",
        ):
            site.submit(controller='[controller]\nkind = "none"', cluster=clusters)

    def test_a_text_counts_by_its_length(self, site: Site) -> None:
        """A long command is accepted."""
        parameters = f"parameters = {{ command = '{'x' * 20_000}' }}"
        site.submit(controller=f'[controller]\nkind = "notes"\n{parameters}')


class TestProcesses:
    def test_the_processes_of_a_tenant_are_limited(self, site: Site) -> None:
        """Controllers and monitors of all its platforms count, and other tenants' do not."""
        site.notes.offered = replace(site.notes.offered, tenant_processes=5)
        watched = f"{CLUSTER}\n[cluster.monitor]\nkind = 'steps'"
        first = site.submit(cluster=watched)
        site.submit(cluster=watched)
        with pytest.raises(OrderError, match="at most 5 controllers and monitors"):
            site.submit(cluster=watched)
        site.submit(controller='[controller]\nkind = "none"', cluster=watched)
        site.submit(site.bob, cluster=watched)
        site.submit()
        site.wait(site.manager.stop(first, "ann"))
        site.submit(cluster=watched)

    @pytest.mark.parametrize(
        ("settings", "most"),
        [({}, 40), ({"tenant_memory_mib": 3_000}, 2), ({"tenant_processes": 7}, 7)],
    )
    def test_memory_limits_the_number_of_processes_too(
        self, tmp_path: Path, settings: dict[str, Any], most: int
    ) -> None:
        """Each process may use its configured memory."""
        processes = PlatformProcesses(
            tmp_path, None, np.random.default_rng(), BusSettings(**settings)
        )
        assert processes.kinds().tenant_processes == most


class TestGoods:
    def test_every_sold_good_has_a_price_ceiling(self) -> None:
        """A platform waits for the price of disk as for memory, and can bid for it."""
        site = Site(goods=GoodsSettings(disk=True))
        try:
            site.vm(5.0, MERKAT_BID_DISK="3")
            site.periods(2)
            waits = site.submit(start="[start.price_ceiling]\ndisk = 0.000001")
            starts = site.submit(start="[start.price_ceiling]\ndisk = 1000")
            site.until(starts, "running")
            assert "disk costs" in site.platform(waits).why
            (vm, _) = site.vms(starts)
            assert site.act(starts, SetBids(bids={vm: {"disk": 2.0}}), "disk").accepted
            refused = site.act(starts, SetBids(bids={vm: {"network": 2.0}}), "network")
            assert "for cpu, memory, disk" in refused.why
        finally:
            site.close()


def test_a_template_is_parsed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a long template is parsed, the daemon answers others."""
    beside = Beside()
    site = Site(executor=beside)
    where: list[bool] = []

    def read(*given: Any) -> Any:
        where.append(beside.busy)
        return read_template(*given)

    monkeypatch.setattr(fitting_module, "read_template", read)
    asked, text = platforms_at(site), template()
    site.wait(asked.submit(LOCAL, site.ann, text))
    site.wait(asked.try_submit(LOCAL, site.ann, text))
    assert where == [True, True]
    site.close()
