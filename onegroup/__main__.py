"""`python -m onegroup`, where the command is not installed."""

import sys

from onegroup.cli import main

sys.exit(main())
