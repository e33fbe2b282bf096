"""Texts that take a parser as long as possible, and a search for worse ones."""
