"""The pages, by what they are about; each puts its routes into the table."""

from merkatd.web.pages import decisions as decisions
from merkatd.web.pages import hosts as hosts
from merkatd.web.pages import orders as orders
from merkatd.web.pages import overview as overview
from merkatd.web.pages import periods as periods
from merkatd.web.pages import plan as plan
from merkatd.web.pages import platform_forms as platform_forms
from merkatd.web.pages import platforms as platforms
from merkatd.web.pages import tenants as tenants
from merkatd.web.pages import vms as vms
