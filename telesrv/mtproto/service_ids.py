"""The constructor ids of service messages that a session handles itself, and the codes it refuses
messages with.

*Spec: Service Messages; Service Messages about Messages, "Notice of Ignored Error Message"*
"""

from __future__ import annotations

from typing import Final

MSGS_ACK: Final = 0x62D6B459

REPEATABLE: Final = frozenset(
    (
        0x7ABE77EC,  # ping
        0xF3427B8C,  # ping_delay_disconnect
        0xB921BD04,  # get_future_salts
        0xDA69FB52,  # msgs_state_req
        0x7D861A08,  # msg_resend_req
        0xE7512126,  # destroy_session
    )
)
"""What may be done twice: a repeated one is simply answered anew."""

SERVICE: Final = REPEATABLE | {
    MSGS_ACK,
    0x58E4A740,  # rpc_drop_answer
    0xD1435160,  # destroy_auth_key
    0x9299359F,  # http_wait
    0x8CC0D131,  # msgs_all_info
    0x04DEB57D,  # msgs_state_info
    0xA7EFF811,  # bad_msg_notification
    0xEDAB447B,  # bad_server_salt
    0x276D3EC6,  # msg_detailed_info
    0x809DB6DF,  # msg_new_detailed_info
}
"""What is not an RPC query."""

MSG_ID_TOO_LOW: Final = 16
MSG_ID_TOO_HIGH: Final = 17
MSG_ID_NOT_A_CLIENTS: Final = 18
CONTAINER_ID_REPEATED: Final = 19
MSG_ID_UNVERIFIABLE: Final = 20
SEQ_NO_TOO_LOW: Final = 32
SEQ_NO_TOO_HIGH: Final = 33
SEQ_NO_NOT_EVEN: Final = 34
SEQ_NO_NOT_ODD: Final = 35
BAD_SERVER_SALT: Final = 48
INVALID_CONTAINER: Final = 64
