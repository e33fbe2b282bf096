"""Texts of VMs and hosts as oned writes them."""


def vm(number: int = 1, user: str = "", template: str = "", **changes: str) -> str:
    """Return a VM as oned writes it, with elements replaced, or omitted if empty."""
    parts = {
        "ID": f"<ID>{number}</ID>",
        "UID": "<UID>2</UID>",
        "GID": "<GID>3</GID>",
        "NAME": f"<NAME>vm-{number}</NAME>",
        "STATE": "<STATE>3</STATE>",
        "LCM_STATE": "<LCM_STATE>3</LCM_STATE>",
        "TEMPLATE": "<TEMPLATE><CPU><![CDATA[1]]></CPU><MEMORY><![CDATA[512]]></MEMORY>"
        f"{template}</TEMPLATE>",
        "USER_TEMPLATE": f"<USER_TEMPLATE>{user}</USER_TEMPLATE>",
        "HISTORY_RECORDS": "<HISTORY_RECORDS><HISTORY><SEQ>0</SEQ><HID>4</HID></HISTORY>"
        "</HISTORY_RECORDS>",
    } | changes
    return f"<VM>{''.join(parts.values())}</VM>"


def pool(*vms: str) -> str:
    """Return the text of a pool of these VMs."""
    return f"<VM_POOL>{''.join(vms)}</VM_POOL>"


def host(number: int = 1, share: str = "", **changes: str) -> str:
    """Return a host as oned writes it, with elements replaced or omitted."""
    parts = {
        "ID": f"<ID>{number}</ID>",
        "NAME": f"<NAME>host{number}</NAME>",
        "STATE": "<STATE>2</STATE>",
        "CLUSTER_ID": "<CLUSTER_ID>0</CLUSTER_ID>",
        "HOST_SHARE": "<HOST_SHARE>"
        + (share or "<MAX_MEM>1048576</MAX_MEM><MAX_CPU>800</MAX_CPU>")
        + "</HOST_SHARE>",
        "VMS": "<VMS><ID>7</ID></VMS>",
    } | changes
    return f"<HOST>{''.join(parts.values())}</HOST>"
