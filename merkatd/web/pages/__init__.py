"""The pages by topic; importing a module adds its routes to the table."""

from merkatd.web.pages import daemon_pages as daemon_pages
from merkatd.web.pages import host_pages as host_pages
from merkatd.web.pages import limit_order_pages as limit_order_pages
from merkatd.web.pages import overview_page as overview_page
from merkatd.web.pages import period_pages as period_pages
from merkatd.web.pages import platform_form_pages as platform_form_pages
from merkatd.web.pages import platform_pages as platform_pages
from merkatd.web.pages import strategy_pages as strategy_pages
from merkatd.web.pages import tenant_pages as tenant_pages
from merkatd.web.pages import vm_pages as vm_pages
