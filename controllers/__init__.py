"""Controllers, which bid for an application so that it meets its goal at low cost."""
