"""The parameters of the monitor of requests are checked at submission."""

from dataclasses import replace

import pytest

from merkatd.fleets.vm_template_text import TemplateError
from tests.platforms.site import VM, Site

CLUSTER = f'[[cluster]]\nname = "nodes"\ntemplate = """\n{VM}"""'
MONITOR = "[cluster.monitor]\nkind = 'requests'\nparameters"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("{ }", "source must be one of haproxy, nginx$"),
        ('{ source = "apache" }', r"source must be one of haproxy, nginx \(got 'apache'\)$"),
        ("{ source = 3 }", r"source must be one of haproxy, nginx \(got 3\)$"),
        ('{ source = "nginx", log = "access.log" }', r"log must be an absolute path .*'access"),
        ('{ source = "nginx", log = "/a\\nb" }', "log must be an absolute path"),
        ('{ source = "nginx", log = ["/a"] }', "log must be an absolute path"),
        (
            f'{{ source = "nginx", log = "/{"a" * 1000}" }}',
            r"log must .*\(got '/a{55}\.\.\.\)$",
        ),
        ('{ source = "nginx", socket = "/s" }', "socket does not belong to source 'nginx'"),
        ('{ source = "haproxy", log = "/l" }', "log does not belong to source 'haproxy'"),
        ('{ source = "haproxy", url = "-K/etc/passwd" }', "url must be an address like"),
        ('{ source = "haproxy", url = "file:///etc/x" }', "url must be an address like"),
        ('{ source = "haproxy", socket = "/s,fork" }', "socket must be an absolute path"),
        ('{ source = "haproxy", socket = "/s", url = "http://a" }', "url and socket exclude"),
        ('{ source = "haproxy", frontend = "a,b" }', "frontend must be the name of a frontend"),
        ('{ source = "haproxy", backend = "" }', "backend must be the name of a backend"),
        ('{ source = "haproxy", window_s = 0 }', r"window_s must be .* between 1 and 3600"),
    ],
)
def test_invalid_parameters_of_the_monitor_of_requests_are_rejected(
    site: Site, parameters: str, message: str
) -> None:
    """Each message names the parameter, its value and the accepted values."""
    site.notes.offered = replace(site.notes.offered, monitors=("requests",))
    with pytest.raises(TemplateError, match=rf"(?m)^cluster\[1\]\.monitor\.parameters\.{message}"):
        site.submit(cluster=f"{CLUSTER}\n{MONITOR} = {parameters}")


@pytest.mark.parametrize(
    "parameters",
    [
        '{ source = "nginx" }',
        '{ source = "nginx", log = "/var/log/nginx/my-app.log", window_s = 120 }',
        '{ source = "haproxy", frontend = "web", backend = "app" }',
        '{ source = "haproxy", url = "http://127.0.0.1:8404/stats;csv" }',
    ],
)
def test_sources_of_requests_are_accepted(site: Site, parameters: str) -> None:
    """Each source has its own parameters."""
    site.notes.offered = replace(site.notes.offered, monitors=("requests",))
    assert site.submit(cluster=f"{CLUSTER}\n{MONITOR} = {parameters}")
