"""What the emulated machine boots: Xen, and a Debian for its first domain with a guest inside.

Everything comes from Debian's packages. What was built is kept for the versions of the
packages that it was built from.
"""

import gzip
import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.real import packages
from tests.real.guest import archive, versioned

CACHE = Path("~/.cache/merkat/xen").expanduser()
READY = "XEN-READY"
KERNEL, INITRD = "/guest/vmlinuz", "/guest/initrd.img"
"""Of guests, where the first domain has them."""
INIT = "/first"
KEY = "merkat.key"
"""The word on its kernel's command line after which the key stands of who may log in."""

_SUITE = "bookworm"
_XEN = "xen-hypervisor-4.17-amd64"
_KERNEL = "linux-image-amd64"
_LIBVIRT = "libvirt-daemon-driver-xen"
_PACKAGES = (
    *(_XEN, _KERNEL, _LIBVIRT),
    *("xen-utils-4.17", "xen-utils-common", "xenstore-utils"),
    *("libvirt-daemon-system", "libvirt-clients", "netcat-openbsd", "openssh-server"),
    *("iproute2", "kmod", "udev", "busybox-static"),
)
_ROOM = "1600M"
_MODULES = ("virtio_pci", "virtio_blk", "ext4")
"""All that is needed to come to the disk: with every module it takes twice as long to boot."""

_FIRST = f"""\
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
for each in proc:/proc sysfs:/sys devtmpfs:/dev tmpfs:/run; do
    mountpoint -q "${{each#*:}}" || mount -t "${{each%%:*}}" "${{each%%:*}}" "${{each#*:}}"
done
mkdir -p /dev/pts /run/sshd /run/lock /run/libvirt /root/.ssh
mount -t devpts pts /dev/pts
for module in virtio_net xen-evtchn xen-gntdev xen-gntalloc xen-privcmd xenfs; do
    modprobe $module
done
mount -t xenfs xenfs /proc/xen
hostname xen0
ip link set lo up
until link=$(ls /sys/class/net | grep -v lo); [ -n "$link" ]; do sleep 0.1; done
ip link set "$link" up
ip address add 10.0.2.15/24 dev "$link"
echo '127.0.0.1 localhost xen0' > /etc/hosts
: > /etc/resolv.conf
sed -n 's/.*{KEY}=\\([^ ]*\\).*/ssh-ed25519 \\1/p' /proc/cmdline > /root/.ssh/authorized_keys
chmod -R go= /root/.ssh
sed -i 's/.*autoballoon.*/autoballoon = 0/' /etc/libvirt/libxl.conf
/etc/init.d/xen start
virtlogd -d
libvirtd -d
/usr/sbin/sshd
until virsh -c xen:///system list; do sleep 0.2; done
echo {READY}
while :; do sleep 1000; done
"""
_GUEST = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t devtmpfs dev /dev
burn=$(sed -n "s/.*\\bburn=\\([0-9]*\\).*/\\1/p" /proc/cmdline)
while [ "${burn:-0}" -gt 0 ]; do (while :; do :; done) & burn=$((burn - 1)); done
while :; do sleep 3600; done
"""


@dataclass(frozen=True, slots=True)
class Image:
    """Files for QEMU."""

    xen: Path
    kernel: Path
    initrd: Path
    disk: Path


def built() -> Image:
    """The image, built anew where the packages or what is made of them have changed."""
    versions = " ".join(versioned(name) for name in (_XEN, _KERNEL, _LIBVIRT))
    made_of = f"{versions} {_PACKAGES} {_MODULES} {_ROOM} {_FIRST} {_GUEST}"
    place = CACHE / hashlib.sha256(made_of.encode()).hexdigest()[:16]
    if not place.exists():
        packages.say("building a machine with Xen, which takes some minutes")
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="building-") as building:
            finished = _build(Path(building))
            _forget_others()
            finished.rename(place)
    return _in(place)


def _forget_others() -> None:
    """A disk is large: one is kept."""
    for old in CACHE.glob("*"):
        if not old.name.startswith("building-"):
            shutil.rmtree(old)


def _in(place: Path) -> Image:
    names = ("xen", "vmlinuz", "initrd.img", "disk.img")
    return Image(*(place / name for name in names))


def _build(building: Path) -> Path:
    root, place = building / "root", building / "image"
    packages.run(
        *("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase"),
        *('--aptopt=APT::Install-Recommends "false"', "--dpkgopt=path-exclude=/usr/share/doc/*"),
        *(f"--include={','.join(_PACKAGES)}", _SUITE, str(root)),
    )
    _shorten_boot(root)
    boot = root / "boot"
    place.mkdir()
    files = _in(place)
    files.xen.write_bytes(gzip.decompress(_only(boot, "xen-*.gz").read_bytes()))
    shutil.copy2(_only(boot, "vmlinuz-*"), files.kernel)
    shutil.copy2(_only(boot, "initrd.img-*"), files.initrd)
    _add_guest(root, building / "guest")
    _write_program(root / INIT.lstrip("/"), _FIRST)
    packages.run("mke2fs", "-q", "-t", "ext4", "-d", str(root), str(files.disk), _ROOM)
    return place


def _shorten_boot(root: Path) -> None:
    settings = root / "etc/initramfs-tools"
    (settings / "conf.d/modules").write_text("MODULES=list\n")
    with (settings / "modules").open("a") as modules:
        modules.writelines(f"{name}\n" for name in _MODULES)
    packages.run("chroot", str(root), "update-initramfs", "-u")


def _add_guest(root: Path, guest: Path) -> None:
    """Guests have the kernel of the first domain, and busybox."""
    (guest / "bin").mkdir(parents=True)
    for name in ("dev", "proc"):
        (guest / name).mkdir()
    shutil.copy2(root / "bin/busybox", guest / "bin/busybox")
    _write_program(guest / "init", _GUEST)
    (root / "guest").mkdir()
    shutil.copy2(_only(root / "boot", "vmlinuz-*"), root / KERNEL.lstrip("/"))
    (root / INITRD.lstrip("/")).write_bytes(gzip.compress(archive(guest), mtime=0))


def _write_program(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def _only(place: Path, pattern: str) -> Path:
    (path,) = place.glob(pattern)
    return path
