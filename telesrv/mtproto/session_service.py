"""Service messages of the client: each is answered here, or turned into an event.

*Spec: Service Messages; Service Messages about Messages*
"""

from __future__ import annotations

from typing import Final

from telesrv import tl
from telesrv.mtproto.messages import Message
from telesrv.mtproto.msg_ids import Received
from telesrv.mtproto.salts import SaltSchedule
from telesrv.mtproto.session_events import (
    DestroyAuthKey,
    DestroySession,
    Event,
    PingDelayDisconnect,
)
from telesrv.mtproto.session_state import SessionState
from telesrv.tl import mt
from telesrv.tl.errors import ProtocolError

_UNKNOWN: Final = 1
_NOT_RECEIVED: Final = (1, 2, 3)
_RECEIVED: Final = 4


def serve(
    state: SessionState,
    salts: SaltSchedule,
    message: Message,
    entry: Received,
    now: float,
    events: list[Event],
) -> None:
    """Handles one service message; one that cannot be read is answered if it wants an answer, else
    dropped."""
    msg_id = message.msg_id
    try:
        query = tl.read(message.body)
    except ProtocolError:
        if message.seq_no & 1:
            state.answer_error(msg_id, entry, 400, "INPUT_FETCH_ERROR")
        return
    if isinstance(query, mt.MsgsAck):
        state.acked(query.msg_ids)
    elif isinstance(query, mt.Ping):
        state.reply(mt.Pong(msg_id=msg_id, ping_id=query.ping_id), msg_id)
    elif isinstance(query, mt.PingDelayDisconnect):
        state.reply(mt.Pong(msg_id=msg_id, ping_id=query.ping_id), msg_id)
        events.append(PingDelayDisconnect(query.disconnect_delay))
    elif isinstance(query, mt.GetFutureSalts):
        future = salts.future(now, query.num)
        state.reply(mt.FutureSalts(req_msg_id=msg_id, now=int(now), salts=future), msg_id)
    elif isinstance(query, mt.MsgsStateReq):
        _reply_states(state, msg_id, query.msg_ids)
    elif isinstance(query, mt.MsgResendReq):
        _resend(state, msg_id, query.msg_ids)
    elif isinstance(query, mt.MsgsAllInfo):
        _take_states(state, query.msg_ids, query.info)
    elif isinstance(query, mt.RpcDropAnswer):
        _drop_answer(state, msg_id, entry, query.req_msg_id)
    elif isinstance(query, mt.DestroySession):
        if query.session_id == state.session_id:
            state.reply(mt.DestroySessionNone(session_id=query.session_id), msg_id)
        else:
            events.append(DestroySession(query.session_id, msg_id))
    elif isinstance(query, mt.DestroyAuthKey):
        entry.bare_answer = True
        state.start(entry)
        events.append(DestroyAuthKey(msg_id))
    # http_wait means nothing on a stream, and the rest answer questions that are never asked.


def _reply_states(state: SessionState, msg_id: int, asked: list[int]) -> None:
    info = bytes([_state_of(state, asked_id) for asked_id in asked])
    for asked_id in asked:
        state.acks.pop(asked_id, None)  # telling the state of a message acknowledges it
    state.reply(mt.MsgsStateInfo(req_msg_id=msg_id, info=info), msg_id)


def _state_of(state: SessionState, msg_id: int) -> int:
    """Returns the state byte of a client message.

    1 forgotten or unknown, 2 not received, 3 not received and above all others, 4 received; then added: 8
    acknowledged, 16 needs no acknowledgement, 32 a request that runs or ran, 64 its answer exists.

    *Spec: Service Messages about Messages, "Informational Message regarding Status of Messages"*
    """
    window = state.window
    entry = window.get(msg_id)
    if entry is None:
        if window.is_container(msg_id):
            return _RECEIVED | 8 | 16
        if msg_id <= window.floor:
            return _UNKNOWN
        return 3 if msg_id > window.highest else 2
    flags = _RECEIVED
    if msg_id not in state.acks:
        flags |= 8
    if not entry.seq_no & 1:
        flags |= 16
    if entry.running or entry.answered or entry.dropped:
        flags |= 32
    if entry.answered:
        flags |= 64
    return flags


def _resend(state: SessionState, msg_id: int, asked: list[int]) -> None:
    """Sends the asked messages again; only when one is not there the states are told besides.

    TDLib closes the connection at a msgs_state_info here that it can do without.
    """
    info = bytearray()
    for asked_id in asked:
        out = state.outbound.sent(asked_id)
        info.append(_UNKNOWN if out is None else _RECEIVED)
        if out is not None:
            state.outbound.requeue(out)
    if _UNKNOWN in info:
        state.reply(mt.MsgsStateInfo(req_msg_id=msg_id, info=bytes(info)), msg_id)


def _take_states(state: SessionState, msg_ids: list[int], info: bytes) -> None:
    """Believes what the client volunteers about our messages: received is acknowledged, missing is sent
    again."""
    told = dict(zip(msg_ids, info, strict=False))
    state.acked([msg_id for msg_id, flags in told.items() if flags & 7 == _RECEIVED])
    for msg_id, flags in told.items():
        out = state.outbound.sent(msg_id)
        if out is not None and flags & 7 in _NOT_RECEIVED:
            state.outbound.requeue(out)


def _drop_answer(state: SessionState, msg_id: int, entry: Received, req_msg_id: int) -> None:
    """Answers rpc_drop_answer: what is running is finished and gets no answer, an unacknowledged answer is
    forgotten.

    *Spec: Service Messages, "Cancellation of an RPC Query"*
    """
    outcome: mt.RpcAnswerUnknown | mt.RpcAnswerDroppedRunning | mt.RpcAnswerDropped
    outcome = mt.RpcAnswerUnknown()
    target = state.window.get(req_msg_id)
    if target is not None and target.is_request:
        answer = target.answer
        if target.running:
            outcome = mt.RpcAnswerDroppedRunning()
            state.stop(target)
            target.dropped = True
        elif answer is not None:
            outcome = mt.RpcAnswerDroppedRunning()
            if answer.msg_id:
                outcome = mt.RpcAnswerDropped(
                    msg_id=answer.msg_id, seq_no=answer.seq_no, bytes=len(answer.body)
                )
            state.finish(answer)
            target.dropped = True
    state.answer(msg_id, entry, tl.write(outcome))
