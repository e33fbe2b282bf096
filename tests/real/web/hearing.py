"""What a page that listens is told, and when."""

import http.client
import json
import time
from contextlib import closing

from tests.real.web.sites import Shown
from tests.web.browser import Browser


def heard_periods(shown: Shown, count: int) -> dict[int, float]:
    """The next periods that end, with the time by the clock on the wall at which that is told."""
    browser = Browser(shown.address)
    browser.sign_in(shown.admin)
    found: dict[int, float] = {}
    with closing(http.client.HTTPConnection(browser.where, timeout=60)) as connection:
        connection.request("GET", "/live", headers={"Cookie": browser.cookie})
        with connection.getresponse() as stream:
            while len(found) < count:
                if stream.readline() == b"event: period\n":
                    told = json.loads(stream.readline().removeprefix(b"data: "))
                    found[told["period"]] = time.time()
    return found
