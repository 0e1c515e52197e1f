"""What goes wrong below the server: its text is for the operator and says what to do."""

from __future__ import annotations


class PlatformError(Exception):
    """PostgreSQL, Valkey or the data directory cannot be used."""
