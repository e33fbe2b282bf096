"""`python -m tests.layout` prints what breaks the rules of the layout, and exits 1 then."""

import sys
from pathlib import Path

from tests.layout.rules import RULES, modules

all_ = modules(Path())
broken = [broken_rule for rule in RULES for broken_rule in rule(all_)]
for line in broken:
    sys.stderr.write(f"{line}\n")
sys.exit(bool(broken))
