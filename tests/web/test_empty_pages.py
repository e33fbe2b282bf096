"""Pages of a cloud without VMs say why they are empty, and what to do next."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.daemon.processes import until
from tests.web.browser import Browser

NEXT_STEPS = {
    "/": "No tenant has a running VM.",
    "/vms": "onevm create",
    "/platforms": "/platforms/new",
    "/limit-orders": "State one below",
    "/tenants": "Each user of OpenNebula becomes one with its first VM.",
    "/decisions": "There are no decisions yet.",
    "/periods/1": "The period placed, moved and limited no VM",
    "/hosts/0": "onevm create",
}
"""By page, what an administrator reads; each part stands where a table would be."""


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Yield an administrator's browser, before a daemon with one host and no VM."""
    folder = tmp_path_factory.mktemp("empty")
    config, state = folder / "merkatd.toml", folder / "state"
    config.write_text(f'[daemon]\nstate_directory = "{state}"\n[cloud]\nhosts = 1\n')
    words = [sys.executable, "-m", "merkatd.cli", "run", "--config", str(config)]
    with (folder / "log").open("wb") as log:
        program = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        until(lambda: "Period 1:" in (folder / "log").read_text(), "the first period")
        browser = Browser((state / "merkat_web").read_text().strip())
        browser.sign_in((state / "one_auth").read_text().strip())
        yield browser
    finally:
        program.kill()
        program.wait()


@pytest.mark.parametrize("page", NEXT_STEPS)
def test_an_empty_page_says_what_to_do(page: str, admin: Browser) -> None:
    """No page says only that it shows nothing."""
    answer = admin.get(page)
    assert answer.status == 200, answer.text
    assert NEXT_STEPS[page] in answer.text, re.sub(r"<[^>]*>", " ", answer.text)
    assert "Nothing yet." not in answer.text


def test_the_prices_of_the_first_period_are_there(admin: Browser) -> None:
    """Prices exist before the first VM."""
    assert "core-hour" in admin.get("/prices").text
