"""What people read below a table without rows: why it is empty, and what to do next."""

NO_VMS = (
    "there are no VMs yet. Create one with `merkat vm create FILE --cpu 2`, or with `onevm create`"
)
NO_HOSTS = (
    "no host is in a market, or no host has a VM of yours; `onehost list` lists all hosts of"
    " OpenNebula"
)
NO_APPLICATIONS = (
    "no application has VMs. Create a VM with `merkat vm create FILE`, or submit a platform with"
    " `merkatd platform submit FILE`"
)
NO_STEPS = (
    "there is no such decision. The daemon stores one when it places, moves, limits or suspends a"
    " VM"
)
NO_ORDERS_GIVEN = "no administrator gave such an order in this time"
NO_PLATFORMS = (
    "there are no platforms. `merkatd platform quote FILE` shows what one would cost, and"
    " `merkatd platform submit FILE` submits it"
)
NO_LIMIT_ORDERS = (
    "there are no limit orders. State one with `merkatd order set VM --limit CREDITS`; `merkatd"
    " order quote VM` finds a limit"
)
NO_TENANTS = (
    "there are no tenants yet. A user of OpenNebula becomes one with its first VM:"
    " `merkat vm create FILE`"
)
NO_REFUSALS = (
    "no request was refused since the daemon started; a restart of the daemon clears this list"
)
NO_PRICES = "there is no price yet: the first period that ends announces one"
NO_CHARGES = "no VM was charged in this month. `--month` shows another month"
NO_GROUPS = (
    "there are no groups. Create one with `{program} create FILE -s 60 -n 2`: two VMs that spend"
    " up to 60 credits a period"
)
NO_LIMITS = (
    "no running VM has a share yet. `merkatd list vms` lists the VMs, and `merkatd status` says"
    " whether periods start"
)
