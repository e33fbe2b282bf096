"""The columns of groups and of their VMs."""

from merkatd.commands.table import Column, Kind, Table

GROUPS = Table(
    "GROUP",
    (
        Column("ID", "id", Kind.WHOLE, "its id"),
        Column("USER", "user", Kind.TEXT, "the user whose it is", least=4),
        Column("GROUP", "group", Kind.TEXT, "the group of users it permits", least=4),
        Column("NAME", "name", Kind.TEXT, "its name", least=6),
        Column("SRATE", "spending_rate", Kind.CREDITS, "its spending rate: credits for each core"
               " that its VMs use for a period"),
        Column("NVM", "nvm", Kind.WHOLE, "how many VMs it is to have"),
        Column("RUN", "running", Kind.WHOLE, "how many of them run"),
        Column("VMID", "vm_ids", Kind.LIST, "the ids of its VMs", least=8),
        Column("CPU", "cpu", Kind.NUMBER, "what they get together, percent of a core"),
        Column("COST", "cost_at_most", Kind.CREDITS, "credits a period if they use all of it",
               optional=True),
        Column("STAT", "state", Kind.TEXT, "active, or ending once it was deleted"),
        Column("PERM", "may", Kind.TEXT, "use, manage, admin: owner, group, others",
               default=False),
        Column("OCTET", "permissions", Kind.TEXT, "the same as chmod takes it", default=False),
        Column("VM_RATE", "rate_of_a_vm", Kind.CREDITS, "the part of the rate that each VM has",
               default=False),
        Column("MARKET", "market", Kind.TEXT, "the market its VMs are in", default=False),
        Column("UID", "owner", Kind.WHOLE, "its user's id", default=False),
        Column("GID", "user_group", Kind.WHOLE, "its group of users' id", default=False),
        Column("CREATED", "created_s", Kind.TIME, "when it was created", default=False),
        Column("WHY", "why", Kind.TEXT, "what went otherwise than was asked for", default=False,
               least=10),
    ),
)  # fmt: skip

VMS = Table(
    "VM",
    (
        Column("ID", "vm", Kind.WHOLE, "its id; none until it is made"),
        Column("NUMBER", "number", Kind.WHOLE, "the how-manieth of its group it is"),
        Column("STATE", "state", Kind.TEXT, "what it is doing"),
        Column("HOST", "host", Kind.TEXT, "where", least=6),
        Column("RATE", "bid", Kind.CREDITS, "its part of the spending rate"),
        Column("CPU", "cpu", Kind.NUMBER, "what it gets, percent of a core"),
        Column("LEAVING", "leaving", Kind.TEXT, "whether it is to end"),
    ),
)
