"""Connections and sessions: the asyncio shell round the MTProto machines.

A `Connection` owns one TCP link, a `SessionActor` one (auth_key_id, session_id) whatever links carry it,
and the `SessionHub` finds the sessions of an account. Nothing here decides what a message means: that is
`telesrv.rpc`.
"""
