"""Every bound of the gateway, in one place, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Bounds of one process."""

    max_connections: int = 20_000
    """Further links are closed at once; a link costs some tens of KiB, so this stays below 1 GiB."""

    max_half_open: int = 2_000
    """Links that have not yet sent an authenticated message: the cheapest thing for a stranger to open."""

    max_half_open_per_ip: int = 1_200
    """So that one address cannot take all half-open places; a NAT whose clients reconnect still fits."""

    handshake_timeout_s: float = 60.0
    """From accept to the first authenticated message: slow links need three round trips and arithmetic."""

    idle_timeout_s: float = 600.0
    """A link that sent nothing for this long is gone: every known client pings at least each minute."""

    inbound_high_bytes: int = 4 << 20
    """Reading pauses when this much is received and not yet handled: one upload part is 512 KiB."""

    inbound_low_bytes: int = 1 << 20
    """Reading goes on below this."""

    max_inflight_rpcs: int = 128
    """Running requests of one session; clients keep at most some tens in flight. Beyond it reading waits."""

    max_outbound_bytes: int = 8 << 20
    """Unwritten bytes of one link: a reader this far behind is disconnected and resumes by resend."""

    max_sessions: int = 50_000
    """Sessions in memory, connected or not."""

    max_sessions_per_link: int = 16
    """Sessions that one link carries; known clients open a link for each. One more takes the place of the
    first, which then waits detached: else a single link could fill the memory with sessions."""

    max_detached_per_key: int = 16
    """Sessions without a link kept for one auth key; each new program start of a client makes one."""

    detached_ttl_s: float = 300.0
    """How long a session waits for its client to come back; after it a client gets new_session_created."""

    exchange_threads: int = 2
    """Threads for key exchange arithmetic, which releases the interpreter lock."""

    max_pending_computations: int = 64
    """Key exchanges that wait for a thread: at 6 ms each the last waits half a second. Others stay unread."""

    remembered_outcomes: int = 256
    """Outcomes of finished requests kept for invokeAfterMsg, which names recent ones."""
