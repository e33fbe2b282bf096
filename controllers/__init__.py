"""Controllers: what trades for an application, so that it meets its objective for little money."""
