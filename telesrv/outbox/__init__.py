"""What a process does by itself, beside serving clients: it pushes durable events to sessions, does what is
due at a time, and looks after accounts that go offline or for good.
"""
