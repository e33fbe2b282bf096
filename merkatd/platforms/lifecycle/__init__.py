"""A platform from its template to its end."""
