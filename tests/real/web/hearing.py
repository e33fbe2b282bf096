"""The updates that a listening page receives, and their times."""

import http.client
import json
import time
from contextlib import closing

from tests.real.web.sites import Shown
from tests.web.browser import Browser


def heard_periods(shown: Shown, count: int) -> dict[int, float]:
    """Return the next announced periods, each with the wall-clock time of its announcement."""
    browser = Browser(shown.address)
    browser.sign_in(shown.admin)
    heard_at_s: dict[int, float] = {}
    with closing(http.client.HTTPConnection(browser.where, timeout=60)) as connection:
        connection.request("GET", "/live", headers={"Cookie": browser.cookie})
        with connection.getresponse() as stream:
            while len(heard_at_s) < count:
                if stream.readline() == b"event: period\n":
                    news = json.loads(stream.readline().removeprefix(b"data: "))
                    heard_at_s[news["period"]] = time.time()
    return heard_at_s
