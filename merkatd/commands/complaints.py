"""What commands say on standard error: one line, not too long, whatever the words were."""

import sys

from merkatd.commands.table.screen import plain

DONE, NOT_DONE, WRONG_WORDS = 0, 1, 2
"""Exit codes; 130 is a command's that was interrupted."""
CONFIGURATION = 78
"""EX_CONFIG of sysexits.h: the daemon can't be started with this one, however often."""
LONGEST_COMPLAINT = 500


def complain(command: str, why: str, code: int = NOT_DONE, program: str = "merkatd") -> int:
    """Say in one line why it could not be done; the exit code."""
    print(one_line(f"{program} {command}: {why}"), file=sys.stderr)
    return code


def one_line(text: str) -> str:
    """Without control characters; a long one loses its middle, for the reason stands at the end."""
    said = plain(text)
    if len(said) <= LONGEST_COMPLAINT:
        return said
    half = LONGEST_COMPLAINT // 2
    return f"{said[:half]} ... {said[-half:]}"
