"""Faults under load: real clients chat while parts of the server are killed, cut off, stopped and emptied."""
