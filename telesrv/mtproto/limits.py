"""Every bound of a session, in one place, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Bounds of one session. An attacker holds a valid key, so each bound is what one account may cost."""

    max_received_ids: int = 2048
    """Client messages remembered. What is forgotten is never executed, so a lower bound only refuses
    stragglers; a client has some tens of messages under way."""

    max_running_requests: int = 2048
    """Requests given out and not answered. One container of TDLib carries up to 1,020; the gateway holds
    back reading long before this."""

    max_container_messages: int = 2048
    """Messages taken from one container. TDLib puts in 1,020 requests and a few service messages
    besides."""

    sent_container_messages: int = 1020
    """Messages put into one container, the public limit."""

    sent_container_bytes: int = 64 << 10
    """A container is closed at this size, so that a client need not hold much before it can act; a larger
    message goes alone."""

    max_answers: int = 2048
    """Answers kept until acknowledged. pyrogram acknowledges by the ten, others at least once a minute."""

    max_answer_bytes: int = 8 << 20
    """Bytes of those answers: eight parallel file parts of 1 MiB."""

    max_updates: int = 512
    """Updates kept until acknowledged. A client further behind asks for the difference, which is
    cheaper."""

    max_update_bytes: int = 1 << 20
    """Bytes of those updates."""

    max_inflated_bytes: int = 4 << 20
    """A packed request may inflate to this. The largest request, a file part, has 512 KiB."""

    gzip_above_bytes: int = 1024
    """Answers above this are compressed when it makes them smaller."""

    ack_delay_s: float = 0.5
    """A request that is not answered by then is acknowledged by itself. Telegram Desktop gives a
    connection up after 4 s without a sign of life."""

    resend_same_id_s: float = 240.0
    """Unacknowledged messages keep their msg_id up to this age; clients discard those older than 300 s."""
