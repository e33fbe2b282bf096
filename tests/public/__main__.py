"""`python -m tests.public` records what others build on, as it is now."""

from tests.public.surface import TOPICS
from tests.public.test_surface import recorded

for name, lines in TOPICS.items():
    recorded(name).write_text("\n".join(lines()) + "\n")
