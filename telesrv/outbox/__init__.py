"""The outbox: what pushes durable events to the sessions that are here."""
