"""Heat spreads over a plate: an iterative application of several processes, one in each VM.

Each process computes a strip of the plate, and sends the rows at its edges to its neighbours after
every step, so all processes are as fast as the slowest. The first process writes a log. Every few
steps all processes save their strips. A process that is killed and started again, in any VM,
continues from there with the others. Locks in a shared folder decide which process computes which
strip.

python heat.py FOLDER PROCESSES STEPS WORK
"""

import fcntl
import os
import select
import socket
import sys
import time
from pathlib import Path

import numpy as np

_COLUMNS, _ROWS = 512, 64
_KEPT_EVERY = 10
_TICK_S = 0.05
_SILENT_S = 5.0


class BrokenError(Exception):
    """A neighbour is gone: all processes start again from the last common state."""


def main(folder: Path, processes: int, steps: int, work: int) -> None:
    """Compute until all steps are done."""
    rank, _lock = _place(folder, processes)
    with socket.create_server((os.environ.get("HEAT_ADDRESS", "127.0.0.1"), 0)) as listener:
        while True:
            try:
                if _run(folder, rank, processes, steps, work, listener):
                    return
            except (OSError, BrokenError):
                time.sleep(_TICK_S)


def _place(folder: Path, processes: int) -> tuple[int, object]:
    """Lock and return the first strip that no other process has."""
    while True:
        for rank in range(processes):
            lock = (folder / f"lock-{rank}").open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                continue
            return rank, lock
        time.sleep(_TICK_S)


def _run(
    folder: Path, rank: int, processes: int, steps: int, work: int, listener: socket.socket
) -> bool:
    """Compute from the last common state; return whether all steps are done."""
    _publish(folder / f"address-{rank}", "{}:{}".format(*listener.getsockname()))
    upper, lower = _neighbours(folder, rank, processes, listener)
    try:
        strip, first = _agreed(folder, rank, upper, lower)
        for step in range(first + 1, steps + 1):
            began_s = time.perf_counter()
            strip = _step(strip, work)
            strip = _exchanged(strip, upper, lower)
            if rank == 0:
                with (folder / "run.log").open("a") as log:
                    log.write(f"step {step} {time.perf_counter() - began_s:.6f} s\n")
            if step % _KEPT_EVERY == 0 or step == steps:
                _keep(folder, rank, step, strip)
    finally:
        for line in (upper, lower):
            if line is not None:
                line.close()
    return True


def _neighbours(
    folder: Path, rank: int, processes: int, listener: socket.socket
) -> tuple[socket.socket | None, socket.socket | None]:
    """Connect to the upper neighbour, and accept the connection of the lower one."""
    upper = lower = None
    if rank > 0:
        host, _, port = (folder / f"address-{rank - 1}").read_text().rpartition(":")
        upper = socket.create_connection((host, int(port)), _SILENT_S)
        upper.settimeout(None)
    if rank < processes - 1:
        listener.settimeout(_SILENT_S)
        lower, _ = listener.accept()
        # The first connection may be an older one of a process that was started again.
        while select.select([listener], [], [], 0)[0]:
            lower.close()
            lower, _ = listener.accept()
        lower.settimeout(None)
    return upper, lower


def _agreed(
    folder: Path, rank: int, upper: socket.socket | None, lower: socket.socket | None
) -> tuple[np.ndarray, int]:
    """Return the newest state that all processes have: the least number, sent down and up again."""
    own = max(
        (int(path.stem.rpartition("-")[2]) for path in folder.glob(f"strip-{rank}-*.npy")),
        default=0,
    )
    least = own if upper is None else min(own, int(_receive(upper, 8)))
    if lower is not None:
        lower.sendall(f"{least:8d}".encode())
        least = int(_receive(lower, 8))
    if upper is not None:
        upper.sendall(f"{least:8d}".encode())
    if least == 0:
        strip = np.zeros((_ROWS + 2, _COLUMNS))
        strip[0 if rank == 0 else -1] = 100.0
        return strip, 0
    return np.load(folder / f"strip-{rank}-{least}.npy"), least


def _step(strip: np.ndarray, work: int) -> np.ndarray:
    for _ in range(work):
        inner = (strip[:-2, 1:-1] + strip[2:, 1:-1] + strip[1:-1, :-2] + strip[1:-1, 2:]) / 4
        strip[1:-1, 1:-1] = inner
    return strip


def _exchanged(
    strip: np.ndarray, upper: socket.socket | None, lower: socket.socket | None
) -> np.ndarray:
    """Return the strip with the neighbours' edge rows on both sides."""
    if upper is not None:
        upper.sendall(strip[1].tobytes())
    if lower is not None:
        lower.sendall(strip[-2].tobytes())
    for line, row in ((upper, 0), (lower, -1)):
        if line is not None:
            strip[row] = np.frombuffer(_receive(line, strip[0].nbytes))
    return strip


def _receive(line: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = line.recv(size - len(received))
        if not part:
            raise BrokenError
        received += part
    return bytes(received)


def _keep(folder: Path, rank: int, step: int, strip: np.ndarray) -> None:
    half = folder / f"half-{rank}.tmp"
    with half.open("wb") as file:
        np.save(file, strip)
    half.rename(folder / f"strip-{rank}-{step}.npy")
    # A neighbour may have only the state before.
    for path in folder.glob(f"strip-{rank}-*.npy"):
        if int(path.stem.rpartition("-")[2]) < step - 2 * _KEPT_EVERY:
            path.unlink()


def _publish(path: Path, text: str) -> None:
    half = path.with_suffix(f".{os.getpid()}")
    half.write_text(text)
    half.rename(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
