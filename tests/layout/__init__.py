"""The rules of the layout: rooms, names, lengths, and no circles."""
