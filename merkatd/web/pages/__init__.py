"""The pages, by what they are about; each puts its routes into the table."""

from merkatd.web.pages import (
    decisions,
    figures,
    hosts,
    orders,
    overview,
    periods,
    plan,
    platform_forms,
    platforms,
    tenants,
    vms,
)

PAGES = (
    decisions,
    figures,
    hosts,
    orders,
    overview,
    periods,
    plan,
    platform_forms,
    platforms,
    tenants,
    vms,
)
