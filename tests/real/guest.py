"""A guest for QEMU, built from Debian's packages: kernel, busybox, balloon, disk, busy loops.

The build installs nothing: it downloads and unpacks packages. Its result is kept for the versions
of the packages from which it was built.
"""

import gzip
import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.real.packages import MissingError

CACHE = Path("~/.cache/merkat/guest").expanduser()

_META = "linux-image-cloud-amd64"
_BUSYBOX = "busybox-static"
_MODULES = (
    # in the order in which the guest loads them
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "drivers/virtio/virtio_balloon",
    "drivers/block/virtio_blk",
)
READY = "GUEST-READY"
_INIT = f"""\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in {" ".join(Path(name).name for name in _MODULES)}; do
    insmod /lib/$module.ko || echo "GUEST-FAILED $module" > /dev/ttyS0
done
word() {{ sed -n "s/.*\\b$1=\\([0-9]*\\).*/\\1/p" /proc/cmdline; }}
eat=$(word eat)
if [ -n "$eat" ]; then
    mkdir /eaten; mount -t tmpfs -o size=100% eaten /eaten
    dd if=/dev/zero of=/eaten/all bs=1M count=$eat 2>/dev/null
fi
if [ -n "$(word copy)" ]; then
    (while :; do dd if=/dev/vda of=/dev/null bs=64k iflag=direct; done) 2>/dev/null &
    (while :; do dd if=/dev/zero of=/dev/vda bs=64k oflag=direct; done) 2>/dev/null &
fi
burn=$(word burn)
while [ "${{burn:-0}}" -gt 0 ]; do (while :; do :; done) & burn=$((burn - 1)); done
echo "{READY} $(grep -c ^processor /proc/cpuinfo) $(grep MemTotal /proc/meminfo)" > /dev/ttyS0
while :; do sleep 3600; done
"""


@dataclass(frozen=True, slots=True)
class Image:
    """The files that QEMU boots; the kernel's command line says what the guest does.

    `burn=N` keeps N virtual CPUs busy, `eat=MIB` fills memory, `copy=1` reads and writes the disk.
    """

    kernel: Path
    initrd: Path


def built() -> Image:
    """Return the guest; build it again if the packages or this file have changed."""
    kernel = _kernel_package()
    made_of = f"{versioned(kernel)} {versioned(_BUSYBOX)} {_INIT}"
    place = CACHE / hashlib.sha256(made_of.encode()).hexdigest()[:16]
    image = Image(place / "vmlinuz", place / "initrd.img")
    if not image.initrd.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="building-") as building:
            finished = _build(Path(building), [kernel, _BUSYBOX])
            shutil.rmtree(place, ignore_errors=True)
            finished.rename(place)
    return image


def _kernel_package() -> str:
    """Return the package that contains the newest cloud kernel."""
    match = re.search(r"Depends: (linux-image-\S+-cloud-amd64)", _read_apt_cache("depends", _META))
    if match is None:
        raise MissingError(f"{_META}: apt knows no such package; is apt-get update needed?")
    return match[1]


def versioned(package: str) -> str:
    """Return the package with the version that apt would install."""
    match = re.search(r"Candidate: (\S+)", _read_apt_cache("policy", package))
    return f"{package}={match[1] if match else ''}"


def _read_apt_cache(*words: str) -> str:
    return subprocess.run(["apt-cache", *words], capture_output=True, text=True, check=False).stdout


def _build(place: Path, packages: list[str]) -> Path:
    _download(place, packages)
    unpacked, root, image = place / "unpacked", place / "root", place / "image"
    for package in place.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, unpacked], check=True)
    (root / "bin").mkdir(parents=True)
    for name in ("dev", "lib", "proc", "sys", "tmp"):
        (root / name).mkdir()
    shutil.copy2(unpacked / "bin/busybox", root / "bin/busybox")
    (version,) = (unpacked / "lib/modules").iterdir()
    for name in _MODULES:
        shutil.copy2(version / "kernel" / f"{name}.ko", root / "lib")
    init = root / "init"
    init.write_text(_INIT)
    init.chmod(0o755)
    image.mkdir(mode=0o755)
    shutil.copy2(unpacked / "boot" / f"vmlinuz-{version.name}", image / "vmlinuz")
    (image / "initrd.img").write_bytes(gzip.compress(archive(root), mtime=0))
    return image


def _download(place: Path, packages: list[str]) -> None:
    # As root alone: apt's own user may not write into everybody's folders.
    done = subprocess.run(
        ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *packages],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise MissingError(f"{', '.join(packages)} can't be downloaded: {done.stderr}")


def archive(root: Path) -> bytes:
    """Return the files below the directory in the format that a kernel unpacks."""
    names = "\n".join(sorted(str(path.relative_to(root)) for path in root.rglob("*")))
    return subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0"],
        cwd=root,
        input=names.encode(),
        capture_output=True,
        check=True,
    ).stdout
