"""Generates the Python classes of telesrv.tl from the facts file (`python -m tools.gen [--check]`)."""
