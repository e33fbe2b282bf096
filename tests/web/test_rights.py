"""A tenant sees its own objects and nothing else."""

from merkatd.web.base.routes import ROUTES
from tests.api.xmlrpc.site import ANN, BOB
from tests.web.site import ANNS, PageSite


def addresses(site: PageSite) -> list[tuple[str, str]]:
    """Return every route with the ids of all of Ann's objects."""
    ids = {
        "vms": [0, site.vm],
        "platforms": [site.platform],
        "tenants": [site.users["ann"]],
        "hosts": [0],
        "periods": [site.period()],
    }
    return [
        (route.method, route.path.replace("{}", str(number)))
        for route in ROUTES
        for number in ids.get(route.path.partition("/{}")[0].rpartition("/")[2], [0])
    ]


def test_another_user_finds_nothing_of_anns_at_any_address(site: PageSite) -> None:
    """No route, id, link or form reveals anything, and orders do not reach the daemon."""
    bob = site.browser(BOB)
    secret = bob.secret()
    form = {"form": secret, "cpu": "77", "deadline": "1h", "template": "x", "mode": "dry"}
    before = site.order("mode")["mode"], site.order("status")["drained_hosts"]
    owned = {f"/vms/{site.vm}", "/vms/0", f"/platforms/{site.platform}"}
    owned.add(f"/tenants/{site.users['ann']}")
    for method, path in addresses(site):
        answer = bob.ask(method, path, form if method == "POST" else None)
        assert ANNS not in answer.text, path
        assert f"/vms/{site.vm}" not in answer.text, path
        if path.startswith(tuple(owned)):
            assert answer.status == 404, path
        assert answer.status < 500 or answer.status == 503, path
    assert (site.order("mode")["mode"], site.order("status")["drained_hosts"]) == before
    bids = {row["id"]: row["bid_cpu"] for row in site.order("vms")}
    assert bids[0] == 2
    assert site.order("status")["paused"] is False


def test_a_tenants_own_objects_are_shown(site: PageSite) -> None:
    """They appear in the overview's data and in lists, and have pages of their own."""
    ann = site.browser(ANN)
    mine = f"/vms/{site.vm}"
    assert mine in ann.get("/vms").text
    assert ann.get(mine).status == 200
    assert ann.get(f"/platforms/{site.platform}").status == 200
    assert f"{ANNS}-platform" in ann.get("/").text
    drawn = [vm for host in ann.get("/").hosts for vm in host["vms"]]
    assert {owner for _, _, owner, _, _ in drawn} == {site.users["ann"]}


def test_an_administrator_sees_everything(site: PageSite) -> None:
    """All VMs and every page are available."""
    admin = site.browser(site.admin)
    drawn = [vm for host in admin.get("/").hosts for vm in host["vms"]]
    assert {owner for _, _, owner, _, _ in drawn} == {site.users["ann"], site.users["bob"]}
    for path in ("/", "/hosts", "/hosts/0", "/vms", "/vms/0", "/tenants", "/daemon", "/plan"):
        assert admin.get(path).status == 200, path
