"""One module a kind of application: what it wants, and how it is looked after."""
