"""Every route of the page, independent of other tests' imports."""

from merkatd.web import pages
from merkatd.web.base import routes

ROUTES = routes.ROUTES
assert pages.__name__, "importing the pages fills the table"
assert len(ROUTES) > 20, "the table of routes is not filled"
