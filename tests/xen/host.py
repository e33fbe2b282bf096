"""A machine with a real Xen, emulated in software, and guests on it."""

import subprocess
import time
from pathlib import Path
from typing import Any

import libvirt

from tests.real.host import until
from tests.xen import image

ADDRESS, PORT = "127.0.0.1", 2222
CORES = 2
"""Of the machine: one for its first domain, which may use either."""
NS_PER_S = 1e9
KIB_PER_MIB = 1024
_MEMORY_MIB, _FIRST_MIB = 1536, 640
_BOOT_S, _BURN_S = 360.0, 240.0
_FIRST_WEIGHT = 8192
_BOOTING_S = 20.0
"""So much CPU time, and more, a guest uses only when it has come to burn."""

_GUEST = """\
<domain type='xen'>
  <name>{name}</name>
  <memory unit='MiB'>{memory_mib}</memory>
  <vcpu>{vcpus}</vcpu>
  <os>
    <type arch='x86_64' machine='xenpv'>linux</type>
    <kernel>{kernel}</kernel>
    <initrd>{initrd}</initrd>
    <cmdline>quiet mitigations=off burn={vcpus}</cmdline>
  </os>
  <on_crash>destroy</on_crash>
  <devices><console type='pty'/></devices>
</domain>
"""


class XenHost:
    """The machine, which runs from its construction until it is closed."""

    def __init__(self, directory: Path) -> None:
        """Its console and the key to it are in the directory."""
        self.key = directory / "id"
        self._console = directory / "console"
        self._opened: Any = None
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key))
        self._machine = self._start()
        try:
            until(self._up, "Xen and its first domain are up", patience_s=_BOOT_S)
            # Guests that burn must not hold up whoever looks at them.
            self.run("xl", "sched-credit", "-d", "Domain-0", "-w", str(_FIRST_WEIGHT))
        except BaseException:
            self.close()
            raise

    @property
    def uri(self) -> str:
        """Where its libvirtd answers."""
        return f"xen+ssh://root@{ADDRESS}:{PORT}/?keyfile={self.key}&no_verify=1"

    @property
    def xl(self) -> str:
        """What runs `xl` there, for the configuration."""
        return f"{' '.join(self._ssh())} xl"

    def connection(self) -> Any:
        """The tests' own."""
        if self._opened is None:
            self._opened = libvirt.open(self.uri)
        return self._opened

    def run(self, *words: str) -> str:
        """What a command says that runs in the first domain."""
        return _run(*self._ssh(), *words)

    def output(self) -> str:
        """On its console."""
        return self._console.read_text(errors="replace") if self._console.exists() else ""

    def close(self) -> None:
        """Pull its plug."""
        if self._opened is not None:
            self._opened.close()
        self._machine.kill()
        self._machine.wait()

    def _ssh(self) -> list[str]:
        options = ["-i", str(self.key), "-p", str(PORT), "-o", "StrictHostKeyChecking=no"]
        return ["ssh", "-o", "BatchMode=yes", *options, f"root@{ADDRESS}"]

    def _start(self) -> "subprocess.Popen[bytes]":
        files = image.built()
        key = self.key.with_suffix(".pub").read_text().split()[1]
        xen = (
            f"dom0_mem={_FIRST_MIB}M,max:{_FIRST_MIB}M dom0_max_vcpus=1 sched=credit"
            " com1=115200,8n1 console=com1 loglvl=warning"
        )
        linux = (
            f"root=/dev/vda rw console=hvc0 init={image.INIT} loglevel=5 mitigations=off"
            f" {image.KEY}={key}"
        )
        return subprocess.Popen(
            [
                *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "Nehalem"),
                *("-machine", "pc", "-m", str(_MEMORY_MIB), "-smp", str(CORES)),
                *("-kernel", str(files.xen), "-append", xen),
                *("-initrd", f"{files.kernel} {linux},{files.initrd}"),
                # Nothing is written to the file, which is everybody's.
                *("-drive", f"file={files.disk},if=virtio,format=raw,snapshot=on"),
                *("-nic", f"user,model=virtio-net-pci,hostfwd=tcp:{ADDRESS}:{PORT}-:22"),
                *("-display", "none", "-monitor", "none", "-no-reboot"),
                *("-serial", f"file:{self._console}"),
            ],
            stdin=subprocess.DEVNULL,
        )

    def _up(self) -> bool:
        assert self._machine.poll() is None, f"it ended: {self.output()}"
        assert "Dom0 crashed" not in self.output(), self.output()
        return image.READY in self.output()


def described(vm: int, vcpus: int, memory_mib: int) -> str:
    """The domain of a guest that burns all the CPU that it gets, on every virtual CPU."""
    return _GUEST.format(
        name=f"one-{vm}",
        memory_mib=memory_mib,
        vcpus=vcpus,
        kernel=image.KERNEL,
        initrd=image.INITRD,
    )


class XenGuest:
    """The domain one-N, once it burns; somebody has started it with as many CPUs as cores."""

    vcpus = CORES

    def __init__(self, host: XenHost, vm: int) -> None:
        self.vm = vm
        self.name = f"one-{vm}"
        self._host = host
        self.domain = host.connection().lookupByName(self.name)
        until(
            lambda: self._cpu_s() > _BOOTING_S * self.vcpus,
            f"{self.name} has come up and burns",
            patience_s=_BURN_S,
        )

    @property
    def scheduling(self) -> dict[str, int]:
        """Weight and cap, as Xen has them."""
        return dict(self.domain.schedulerParameters())

    @property
    def balloon_mib(self) -> int:
        """What it holds."""
        return int(self.domain.info()[2]) // KIB_PER_MIB

    @property
    def affinity(self) -> list[str]:
        """Of each virtual CPU, the cores that it may use, as Xen says."""
        lines = self._host.run("xl", "vcpu-list", self.name).splitlines()[1:]
        return [line.split("/")[0].split()[-1] for line in lines]

    def cores_used(self, seconds: float) -> float:
        """How many cores it really gets, over so long."""
        (cores,) = cores_used([self], seconds)
        return cores

    def sample(self) -> tuple[float, float]:
        """CPU time since it started, and when that was."""
        asked_s = time.monotonic()
        cpu_s = self._cpu_s()
        return cpu_s, (asked_s + time.monotonic()) / 2

    def _cpu_s(self) -> float:
        return float(self.domain.info()[4]) / NS_PER_S


def cores_used(guests: list[XenGuest], seconds: float) -> list[float]:
    """How many cores each of them really gets, over the same time."""
    before = [guest.sample() for guest in guests]
    time.sleep(seconds)
    after = [guest.sample() for guest in guests]
    return [
        (ended[0] - began[0]) / (ended[1] - began[1])
        for began, ended in zip(before, after, strict=True)
    ]


def _run(*words: str) -> str:
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}{done.stdout}"
    return done.stdout
