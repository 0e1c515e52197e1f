"""The configuration every client starts with.

*Spec: help.getConfig*
"""

from __future__ import annotations

from typing import Final

from telesrv.domain.messages import MAX_TEXT_CODE_POINTS
from telesrv.tl import types

DC_COUNT: Final = 5
EXPIRES_S: Final = 3600
_FOR_EVER_S: Final = 2**31 - 1


def dc_options(ip: str, port: int) -> list[types.TypeDcOption]:
    """Returns all DCs, every one of them this server; TCP only, and not to be looked up anywhere else."""
    return [
        types.DcOption(ipv6=":" in ip, tcpo_only=True, static=True, id=dc_id, ip_address=ip, port=port)
        for dc_id in range(1, DC_COUNT + 1)
    ]


def config_to_tl(ip: str, port: int, this_dc: int, now: int) -> types.Config:
    """Returns the configuration as of *now*, valid for an hour.

    Args:
        ip: the address that clients of this server reach it at.
        port: the port there.
        this_dc: the DC this client believes it is connected to, 1 to 5.
        now: unix seconds.

    *Spec: help.getConfig*
    """
    return types.Config(
        revoke_pm_inbox=True,
        date=now,
        expires=now + EXPIRES_S,
        test_mode=False,
        this_dc=this_dc,
        dc_options=dc_options(ip, port),
        dc_txt_domain_name="localhost",
        chat_size_max=200,
        megagroup_size_max=200_000,
        forwarded_count_max=100,
        online_update_period_ms=210_000,
        offline_blur_timeout_ms=5_000,
        offline_idle_timeout_ms=30_000,
        online_cloud_timeout_ms=300_000,
        notify_cloud_delay_ms=30_000,
        notify_default_delay_ms=1_500,
        push_chat_period_ms=60_000,
        push_chat_limit=2,
        edit_time_limit=172_800,
        revoke_time_limit=_FOR_EVER_S,
        revoke_pm_time_limit=_FOR_EVER_S,
        rating_e_decay=2_419_200,
        stickers_recent_limit=200,
        channels_read_media_period=604_800,
        call_receive_timeout_ms=20_000,
        call_ring_timeout_ms=90_000,
        call_connect_timeout_ms=30_000,
        call_packet_timeout_ms=10_000,
        me_url_prefix="https://t.me/",
        caption_length_max=1_024,
        message_length_max=MAX_TEXT_CODE_POINTS,
        webfile_dc_id=this_dc,
    )
