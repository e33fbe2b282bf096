"""`python -m tests.layout` prints what breaks the rules of the layout, and exits 1 then."""

import sys
from pathlib import Path

from tests.layout.rules import broken_rules

broken = list(broken_rules(Path()))
for line in broken:
    sys.stderr.write(f"{line}\n")
sys.exit(bool(broken))
