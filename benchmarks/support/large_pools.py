"""Pools of a busy OpenNebula as XML: each VM has disks, network, context and samples."""

from collections.abc import Iterable

HOSTS, VMS = 1_000, 10_000
_RIGHTS = [f"{who}_{right}" for who in ("OWNER", "GROUP", "OTHER") for right in "UMA"]
_TIMES = ("PSTIME", "PETIME", "RSTIME", "RETIME", "ESTIME", "EETIME")
_KEY = "ssh-ed25519 " + "AAAAC3NzaC1lZDI1NTE5AAAAI" * 8


def vm_pool(first: int, after: int) -> str:
    """Return the VMs from one id to before another, newest first."""
    return f"<VM_POOL>{''.join(map(_vm, range(after - 1, first - 1, -1)))}</VM_POOL>"


def host_pool(hosts: int, vms: int) -> str:
    """Return hosts with this number of VMs spread over them."""
    return f"<HOST_POOL>{''.join(_host(row, hosts, vms) for row in range(hosts))}</HOST_POOL>"


def samples(hosts: int) -> str:
    """Return the last sample of each host."""
    return f"<MONITORING_DATA>{''.join(map(_sample, range(hosts)))}</MONITORING_DATA>"


def _data(**words: object) -> str:
    return "".join(f"<{name}><![CDATA[{text}]]></{name}>" for name, text in words.items())


def _plain(**words: object) -> str:
    return "".join(f"<{name}>{text}</{name}>" for name, text in words.items())


def _vector(name: str, **words: object) -> str:
    return f"<{name}>{_data(**words)}</{name}>"


def _rights() -> str:
    return "".join(f"<{name}>{int(name[:3] == 'OWN')}</{name}>" for name in _RIGHTS)


def _vm(vm: int) -> str:
    plain = {"ID": vm, "UID": vm % 50 + 2, "GID": 1, "UNAME": f"user{vm % 50}", "GNAME": "users"}
    states = {"LAST_POLL": 1795211615, "STATE": 3, "LCM_STATE": 3, "PREV_STATE": 3}
    times = {"PREV_LCM_STATE": 3, "RESCHED": 0, "STIME": 1795211614, "ETIME": 0}
    sample = {"CPU": 12.5, "DISKRDBYTES": 1837424, "DISKRDIOPS": 3423, "DISKWRBYTES": 93745243}
    sample |= {"DISKWRIOPS": 3434, "MEMORY": 2097152, "NETRX": 8374563, "NETTX": 837456}
    return (
        f"<VM>{_plain(**plain, NAME=f'vm-{vm}')}<PERMISSIONS>{_rights()}</PERMISSIONS>"
        f"{_plain(**states, **times, DEPLOY_ID=f'one-{vm}')}{_vector('MONITORING', **sample)}"
        f"<SCHED_ACTIONS></SCHED_ACTIONS><TEMPLATE>{_template(vm)}</TEMPLATE>"
        f"<USER_TEMPLATE>{_user_template(vm)}</USER_TEMPLATE>{_history(vm)}"
        "<BACKUPS><BACKUP_CONFIG/><BACKUP_IDS></BACKUP_IDS></BACKUPS></VM>"
    )


def _template(vm: int) -> str:
    here = '("CLUSTERS/ID" @> 0)'
    return "".join(
        (
            _data(AUTOMATIC_DS_REQUIREMENTS=here, AUTOMATIC_NIC_REQUIREMENTS=here),
            _data(AUTOMATIC_REQUIREMENTS="(CLUSTER_ID = 0) & !(PUBLIC_CLOUD = YES)"),
            _vector("CONTEXT", DISK_ID=2, NETWORK="YES", SSH_PUBLIC_KEY=_KEY, TARGET="hda"),
            _data(CPU=0.5),
            _disk(vm, 0),
            _disk(vm, 1),
            _vector("GRAPHICS", LISTEN="0.0.0.0", PORT=5900 + vm, TYPE="VNC"),  # noqa: S104 - a VM's words
            _data(MEMORY=2048),
            _nic(vm),
            _vector("OS", ARCH="x86_64", UUID=f"3a7f4342-3f55-4a0f-8c97-{vm:012x}"),
            _vector("SECURITY_GROUP_RULE", PROTOCOL="ALL", SECURITY_GROUP_ID=0),
            _data(TEMPLATE_ID=4, TM_MAD_SYSTEM="qcow2", VCPU=2, VMID=vm),
        )
    )


def _disk(vm: int, disk: int) -> str:
    return _vector(
        "DISK",
        ALLOW_ORPHANS="NO",
        CLONE="YES",
        CLONE_TARGET="SYSTEM",
        CLUSTER_ID=0,
        DATASTORE="default",
        DATASTORE_ID=1,
        DEV_PREFIX="vd",
        DISK_ID=disk,
        DISK_SNAPSHOT_TOTAL_SIZE=0,
        DISK_TYPE="FILE",
        DRIVER="qcow2",
        IMAGE=f"debian-{disk}",
        IMAGE_ID=disk,
        LN_TARGET="NONE",
        ORIGINAL_SIZE=2048,
        READONLY="NO",
        SAVE="NO",
        SIZE=10240 * (1 + vm % 5),
        SOURCE=f"/var/lib/one/datastores/1/3f0aa28{disk}",
        TARGET=f"vd{'ab'[disk]}",
        TM_MAD="qcow2",
        TYPE="FILE",
    )


def _nic(vm: int) -> str:
    return _vector(
        "NIC",
        AR_ID=0,
        BRIDGE="br0",
        CLUSTER_ID=0,
        IP=f"10.{vm >> 16}.{vm >> 8 & 255}.{vm & 255}",
        MAC=f"02:00:0a:{vm >> 16:02x}:{vm >> 8 & 255:02x}:{vm & 255:02x}",
        MODEL="virtio",
        NETWORK="private",
        NETWORK_ID=3,
        NIC_ID=0,
        SECURITY_GROUPS=0,
        TARGET=f"one-{vm}-0",
        VN_MAD="bridge",
    )


def _user_template(vm: int) -> str:
    return (
        _data(DESCRIPTION="A machine for the daily work of a department", HYPERVISOR="kvm")
        + _data(LOGO="images/logos/debian.png", MERKAT_BID_CPU=1 + vm % 9)
        + _data(MERKAT_DIRTY_RATE=vm % 50, MERKAT_KIND="SERVICE" if vm % 3 else "BATCH")
        + _vector("MERKAT", MEMORY=2)
        + _data(SCHED_REQUIREMENTS=f'ARCH = "x86_64" & RACK != "r{vm % 100}"', USER_INPUTS="")
    )


def _history(vm: int) -> str:
    host = vm % HOSTS
    first = {"OID": vm, "SEQ": 0, "HOSTNAME": f"host{host}", "HID": host, "CID": 0}
    mads = {"VM_MAD": "<![CDATA[kvm]]>", "TM_MAD": "<![CDATA[qcow2]]>", "DS_ID": 0}
    times = dict.fromkeys(_TIMES, 1795211614)
    last = {"ACTION": 0, "UID": -1, "GID": -1, "REQUEST_ID": -1}
    record = _plain(**first, STIME=1795211614, ETIME=0, **mads, **times, **last)
    return f"<HISTORY_RECORDS><HISTORY>{record}</HISTORY></HISTORY_RECORDS>"


def _host(host: int, hosts: int, vms: int) -> str:
    here = range(host, vms, hosts)
    own = {"ID": host, "NAME": f"host{host}", "STATE": 2, "PREV_STATE": 2}
    share = {"MEM_USAGE": len(here) << 21, "CPU_USAGE": len(here) * 50, "TOTAL_MEM": 1 << 27}
    share |= {"TOTAL_CPU": 3200, "MAX_MEM": 1 << 27, "MAX_CPU": 3200, "RUNNING_VMS": len(here)}
    return (
        f"<HOST>{_plain(**own)}{_data(IM_MAD='kvm', VM_MAD='kvm')}"
        f"{_plain(CLUSTER_ID=0, CLUSTER='default')}<HOST_SHARE>{_plain(**share, VMS_THREAD=1)}"
        f"{_vector('DATASTORES', DISK_USAGE=0, FREE_DISK=20480, MAX_DISK=30720, USED_DISK=10240)}"
        f"<PCI_DEVICES>{''.join(map(_pci, range(2)))}</PCI_DEVICES>"
        f"<NUMA_NODES>{''.join(map(_node, range(2)))}</NUMA_NODES></HOST_SHARE>"
        f"<VMS>{_ids(here)}</VMS><TEMPLATE>{_host_words(host)}</TEMPLATE><MONITORING/></HOST>"
    )


def _ids(numbers: Iterable[int]) -> str:
    return "".join(f"<ID>{number}</ID>" for number in numbers)


def _host_words(host: int) -> str:
    return (
        _data(ARCH="x86_64", CPUSPEED=2400, HOSTNAME=f"host{host}", HYPERVISOR="kvm")
        + _data(KVM_CPU_MODEL="Skylake-Server", KVM_MACHINES="pc-q35-7.2 pc-i440fx-7.2 microvm")
        + _data(MERKAT_FULL_WATTS=300 + host % 9, MERKAT_IDLE_WATTS=90, MERKAT_LINK=25000)
        + _data(MERKAT_NETWORK_DOMAIN=f"switch{host % 40}, switch{host % 40 + 40}")
        + _data(MERKAT_POWER_DOMAIN=f"feed{host % 8} feed{host % 8 + 8}")
        + _data(MERKAT_TOPOLOGY=f"dc1/row{host % 40 // 8}/rack{host % 40}")
        + _data(MODELNAME="Xeon", RACK=f"r{host % 40}", RESERVED_CPU="", RESERVED_MEM="")
        + _data(VERSION="6.10.0")
    )


def _pci(slot: int) -> str:
    return _vector(
        "PCI",
        ADDRESS=f"0000:0{slot}:00:0",
        CLASS="0300",
        CLASS_NAME="VGA compatible controller",
        DEVICE="0863",
        SHORT_ADDRESS=f"0{slot}:00.0",
        TYPE="10de:0863:0300",
        VENDOR="10de",
        VMID=-1,
    )


def _node(node: int) -> str:
    cores = "".join(
        _vector("CORE", CPUS=f"{core}:-1,{core + 32}:-1", DEDICATED="NO", FREE=2, ID=core)
        for core in range(node * 16, node * 16 + 16)
    )
    return (
        f"<NODE>{cores}{_vector('HUGEPAGE', PAGES=0, SIZE=2048, USAGE=0)}"
        f"{_vector('MEMORY', DISTANCE='0 1', TOTAL=1 << 26, USAGE=0)}{_data(NODE_ID=node)}</NODE>"
    )


def _sample(host: int) -> str:
    used = {"FREE_CPU": 1600, "FREE_MEMORY": 1 << 26, "USED_CPU": 1600, "USED_MEMORY": 1 << 26}
    return (
        f"<MONITORING><TIMESTAMP>1795211615</TIMESTAMP><ID>{host}</ID>"
        f"{_vector('CAPACITY', **used)}{_vector('SYSTEM', NETRX=0, NETTX=0)}</MONITORING>"
    )
