"""Record the present decisions: python -m tests.placement.recorded."""

import json

from tests.placement.recorded.decision_digests import FILE, all_digests

FILE.write_text(json.dumps(all_digests(), indent=1) + "\n")
