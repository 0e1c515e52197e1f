"""Collects what is known of the schema of every layer into one facts file (`python -m tools.facts`)."""
