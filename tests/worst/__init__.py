"""Texts that slow parsers down as much as possible, and a search for slower ones."""
