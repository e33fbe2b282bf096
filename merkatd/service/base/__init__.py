"""The common parts of all services: arguments, errors, identities, the period's view."""
