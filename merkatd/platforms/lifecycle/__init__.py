"""The lifecycle of a platform, from its template to its end."""
