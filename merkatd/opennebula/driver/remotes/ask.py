"""The driver script: sends oned's question to merkatd, and the answer to oned within a deadline.

OpenNebula starts it for each question; it uses only Python's standard library. The file merkat.conf
beside it contains SOCKET, a path, and DEADLINE, in seconds.
"""

import re
import signal
import socket
import sys

EMPTY = "<PLAN><ID>-1</ID></PLAN>"
_ACTION = (
    r"<ACTION><VM_ID>-?\d+</VM_ID><OPERATION>[a-z-]+</OPERATION><HOST_ID>-?\d+</HOST_ID>"
    r"<DS_ID>-?\d+</DS_ID>"
    r"(?:<NIC><NIC_ID>\d+</NIC_ID><NETWORK_ID>\d+</NETWORK_ID></NIC>)*</ACTION>"
)
_ANSWER = re.compile(
    r"(?P<log>(?:(?:ERROR|INFO|WARN|DEBUG): [^\n]*\n)*)"
    rf"(?P<plan><PLAN><ID>-?\d+</ID>(?:{_ACTION})*</PLAN>)\n"
)
_FIRST_S = 5.0
"""The deadline until the configuration is read."""


class _TooLateError(Exception):
    pass


def _late(*_: object) -> None:
    raise _TooLateError


def _configured() -> dict[str, str]:
    # Without pathlib: importing it would take a third of the script's whole time.
    path = __file__.rpartition("/")[0] + "/merkat.conf"
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        pairs = (line.strip().partition("=") for line in file if "=" in line)
        return {name.strip(): value.strip() for name, _, value in pairs}


def _answer(question: str) -> str:
    configured = _configured()
    signal.setitimer(signal.ITIMER_REAL, float(configured["DEADLINE"]))
    payload = sys.stdin.buffer.read()
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.connect(configured["SOCKET"])
        daemon.sendall(f"{question} {len(payload)}\n".encode() + payload)
        parts = []
        while part := daemon.recv(1 << 16):
            parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def main() -> None:
    """Print a plan to standard output and lines for oned's log to standard error."""
    signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, _FIRST_S)
    try:
        answer = _ANSWER.fullmatch(_answer(" ".join(sys.argv[1:])))
        signal.setitimer(signal.ITIMER_REAL, 0)
        if answer is None:
            log, plan = "WARN: merkatd's answer can't be understood; nothing is done\n", EMPTY
        else:
            log, plan = answer["log"], answer["plan"]
    except _TooLateError:
        log, plan = "WARN: merkatd did not answer in time; nothing is done\n", EMPTY
    except Exception as error:  # noqa: BLE001 - oned must get a plan
        reason = " ".join(str(error).split()) or type(error).__name__
        log, plan = f"WARN: merkatd can't be asked: {reason}; nothing is done\n", EMPTY
    sys.stderr.write(log)
    sys.stdout.write(plan + "\n")


main()
