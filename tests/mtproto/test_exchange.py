"""The key exchange, machine against machine, and each check of the security guidelines by its breach."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import Any

import gmpy2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telesrv import tl
from telesrv.mtproto import exchange, rsa
from telesrv.mtproto.errors import ExchangeError, ProtocolError
from telesrv.mtproto.exchange import DH_MARGIN, DH_PRIME, Compute, Send, ServerExchange
from telesrv.mtproto.rsa import RSAKey
from telesrv.tl import mt
from tests.mtproto.exchange_client import ClientExchange, agree, rsa_bare, rsa_old, rsa_pad, serve, sha1, xor

KEY = rsa.generate_rsa_key()
OTHER = rsa.generate_rsa_key()
NOW = 1.8e9


def new_server() -> ServerExchange:
    return ServerExchange([KEY, OTHER], os.urandom)


@pytest.mark.parametrize("padding", [rsa_pad, rsa_old])
@pytest.mark.parametrize("dc_id", [None, 2, -10004])
@pytest.mark.parametrize("expires_in", [None, 1, 86400, exchange.MAX_EXPIRES_IN_S])
def test_both_sides_agree(
    padding: Callable[[bytes, RSAKey], bytes], dc_id: int | None, expires_in: int | None
) -> None:
    client = ClientExchange(KEY, padding, dc_id, expires_in)
    (created,) = agree(new_server(), client)
    assert client.agreed
    assert created.auth_key == client.auth_key
    assert (created.dc_id, created.expires_in) == (dc_id, expires_in)
    salt = xor(client.new_nonce[:8], client.server_nonce[:8])
    assert created.server_salt.to_bytes(8, "little", signed=True) == salt
    assert all(msg_id % 4 == 1 for msg_id in client.msg_ids)
    assert client.msg_ids == sorted(set(client.msg_ids))
    assert client.dh_params is not None
    assert client.dh_params.server_time == NOW


def test_either_key_is_accepted() -> None:
    client = ClientExchange(OTHER)
    agree(new_server(), client)
    assert client.agreed


@pytest.mark.parametrize("surplus", [1, 16, 252, 1024])
def test_random_bytes_behind_a_message_are_ignored(surplus: int) -> None:
    client = ClientExchange(KEY, surplus=os.urandom(surplus))
    agree(new_server(), client)
    assert client.agreed
    padded = ClientExchange(KEY).begin() + os.urandom(surplus)
    assert len(new_server().receive(padded, NOW)) == 1


@pytest.mark.parametrize("where", ["counted", "not counted"])
def test_more_than_padding_is_refused(where: str) -> None:
    extra = os.urandom(1025)
    payload = ClientExchange(KEY, surplus=extra if where == "counted" else b"").begin()
    with pytest.raises(ExchangeError):
        new_server().receive(payload + (b"" if where == "counted" else extra), NOW)


def test_a_legacy_probe_and_several_exchanges_on_one_connection() -> None:
    server = new_server()
    probe = ClientExchange(KEY)
    sent, _ = serve(server, probe.begin(legacy=True))
    assert isinstance(tl.read(sent[0][20:]), mt.ResPQ)
    permanent, temporary = ClientExchange(KEY, dc_id=2), ClientExchange(KEY, dc_id=2, expires_in=86400)
    (first,) = agree(server, permanent)
    (second,) = agree(server, temporary, legacy=True)
    assert first.auth_key != second.auth_key
    assert permanent.agreed
    assert temporary.agreed
    assert max(permanent.msg_ids) < min(temporary.msg_ids)  # though the clock stands still


def test_a_new_req_pq_starts_over_at_any_point() -> None:
    server = new_server()
    given_up, client = ClientExchange(KEY), ClientExchange(KEY)
    (res_pq,), _ = serve(server, given_up.begin())
    request = given_up.take(res_pq)
    assert request is not None
    serve(server, request)
    (created,) = agree(server, client)
    assert created.auth_key == client.auth_key
    with pytest.raises(ExchangeError):  # and the old one is forgotten
        server.receive(request, NOW)


def test_exchanges_of_one_connection_are_bounded() -> None:
    server = new_server()
    for _ in range(exchange.MAX_EXCHANGES):
        server.receive(ClientExchange(KEY).begin(), NOW)
    with pytest.raises(ExchangeError):
        server.receive(ClientExchange(KEY).begin(), NOW)


@pytest.mark.parametrize("collisions", [1, exchange.MAX_RETRIES])
def test_a_collision_is_resolved_by_another_g_b(collisions: int) -> None:
    client = ClientExchange(KEY)
    created = agree(new_server(), client, collisions=collisions)
    assert len({key.auth_key for key in created}) == collisions + 1
    assert created[-1].auth_key == client.auth_key
    assert client.agreed


def test_collisions_are_bounded() -> None:
    with pytest.raises(ExchangeError):
        agree(new_server(), ClientExchange(KEY), collisions=exchange.MAX_RETRIES + 1)


@pytest.mark.parametrize("wrong", [lambda _: 0, lambda v: v ^ 1], ids=["none", "another"])
def test_a_retry_names_the_key_that_collided(wrong: Callable[[int], int]) -> None:
    client = ClientExchange(KEY, falsify={"dh.retry_id": lambda v: wrong(v) if v else v})
    with pytest.raises(ExchangeError):
        agree(new_server(), client, collisions=1)


def test_the_key_id_0_counts_as_a_collision(monkeypatch: pytest.MonkeyPatch) -> None:
    client = ClientExchange(KEY)
    server = new_server()
    (answer,), _ = serve(server, client.begin())
    for _ in range(2):
        payload = client.take(answer)
        assert payload is not None
        events = server.receive(payload, NOW)
        assert isinstance(events[0], Compute)
        result = events[0].job()
        if isinstance(result, exchange.AuthKey):
            assert client.auth_key is not None
            for key in (result, client.auth_key):
                key.id = 0
        (event,) = server.computed(result, NOW)
        assert isinstance(event, Send)
        answer = event.payload
    assert isinstance(tl.read(answer[20:]), mt.DhGenRetry)


def test_nothing_is_announced_before_the_key_is_stored() -> None:
    server, client = new_server(), ClientExchange(KEY)
    payload: bytes | None = client.begin()
    for _ in range(2):
        assert payload is not None
        (answer,), _ = serve(server, payload)
        payload = client.take(answer)
    assert payload is not None
    (compute,) = server.receive(payload, NOW)
    assert isinstance(compute, Compute)
    assert server.is_waiting_for_caller
    (created,) = server.computed(compute.job(), NOW)
    assert isinstance(created, exchange.KeyCreated)
    with pytest.raises(ExchangeError):  # the client may not speak before the answer
        server.receive(payload, NOW)


def bit(value: bytes) -> bytes:
    return bytes([value[0] ^ 1]) + value[1:]


def number(value: int) -> Callable[[Any], bytes]:
    return lambda _: value.to_bytes(256, "big")


BREACHES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "nonce of another exchange": ("nonce", bit),
    "server_nonce of another exchange": ("server_nonce", bit),
    "p is no factor": ("p", bit),
    "q is no factor": ("q", bit),
    "p is empty": ("p", lambda _: b""),
    "p is too long a number": ("p", lambda v: bytes(253) + v),
    "an unknown RSA key": ("fingerprint", lambda v: v ^ 1),
    "encrypted to another RSA key": ("fingerprint", lambda _: OTHER.fingerprint),
    "encrypted_data too short": ("encrypted_data", lambda v: v[:-1]),
    "encrypted_data too long": ("encrypted_data", lambda v: v + b"\0"),
    "encrypted_data not below the modulus": ("encrypted_data", lambda _: b"\xff" * 256),
    "encrypted_data damaged": ("encrypted_data", lambda v: v[:200] + bit(v[200:])),
    "encrypted_data all zero": ("encrypted_data", lambda _: bytes(256)),
    "inner nonce": ("inner.nonce", bit),
    "inner server_nonce": ("inner.server_nonce", bit),
    "inner pq": ("inner.pq", bit),
    "inner p": ("inner.p", bit),
    "inner q": ("inner.q", bit),
    "inner data of another type": ("inner", lambda v: mt.ReqPq(nonce=v.nonce)),
    "dh nonce": ("dh.nonce", bit),
    "dh server_nonce": ("dh.server_nonce", bit),
    "retry_id without a retry": ("dh.retry_id", lambda _: 7),
    "g_b = 0": ("dh.g_b", number(0)),
    "g_b = 1": ("dh.g_b", number(1)),
    "g_b just too small": ("dh.g_b", number(DH_MARGIN - 1)),
    "g_b just too large": ("dh.g_b", number(DH_PRIME - DH_MARGIN + 1)),
    "g_b = prime - 1": ("dh.g_b", number(DH_PRIME - 1)),
    "g_b = prime": ("dh.g_b", number(DH_PRIME)),
    "g_b above the prime": ("dh.g_b", number(2**2048 - 1)),
    "g_b too long": ("dh.g_b", lambda v: b"\0" + v),
    "dh hash": ("dh.hash", bit),
    "dh of another type": ("dh.inner", lambda v: mt.ReqPq(nonce=v.nonce)),
    "a whole block of dh padding too much": ("dh.padded", lambda v: v + bytes(16)),
    "dh cut to one block": ("set.encrypted_data", lambda v: v[:16]),
    "dh not whole blocks": ("set.encrypted_data", lambda v: v[:-1]),
    "dh empty": ("set.encrypted_data", lambda _: b""),
    "dh damaged": ("set.encrypted_data", bit),
    "set nonce": ("set.nonce", bit),
    "set server_nonce": ("set.server_nonce", bit),
}


@pytest.mark.parametrize("padding", [rsa_pad, rsa_old])
@pytest.mark.parametrize("breach", BREACHES)
def test_every_breach_is_refused_for_good(breach: str, padding: Callable[[bytes, RSAKey], bytes]) -> None:
    name, change = BREACHES[breach]
    server, client = new_server(), ClientExchange(KEY, padding, falsify={name: change})
    with pytest.raises(ProtocolError):
        agree(server, client)
    assert not client.agreed
    with pytest.raises(ExchangeError):
        server.receive(ClientExchange(KEY).begin(), NOW)


@pytest.mark.parametrize("g_b", [DH_MARGIN, DH_PRIME - DH_MARGIN])
def test_the_bounds_of_g_b_themselves_pass(g_b: int) -> None:
    client, server = ClientExchange(KEY, falsify={"dh.g_b": number(g_b)}), new_server()
    payload: bytes | None = client.begin()
    for _ in range(2):
        assert payload is not None
        (answer,), _ = serve(server, payload)
        payload = client.take(answer)
    assert payload is not None
    assert serve(server, payload)[1]


@pytest.mark.parametrize("expires_in", [0, -1, -(2**31), exchange.MAX_EXPIRES_IN_S + 1, 2**31 - 1])
@pytest.mark.parametrize("dc_id", [None, 2])
def test_the_life_of_a_temporary_key_is_bounded(expires_in: int, dc_id: int | None) -> None:
    with pytest.raises(ExchangeError):
        agree(new_server(), ClientExchange(KEY, dc_id=dc_id, expires_in=expires_in))


def test_the_old_padding_must_hash_exactly_its_data() -> None:
    def wrong_hash(data: bytes, key: RSAKey) -> bytes:
        block = bit(sha1(data)) + data
        return rsa_bare(block + os.urandom(255 - len(block)), key)

    def hash_of_all(data: bytes, key: RSAKey) -> bytes:
        data += os.urandom(235 - len(data))
        return rsa_bare(sha1(data) + data, key)

    def raised(data: bytes, key: RSAKey) -> bytes:
        block = b"\x01" + sha1(data) + data
        return rsa_bare(block + os.urandom(256 - len(block)), key)

    for padding in (wrong_hash, hash_of_all, raised):
        with pytest.raises(ExchangeError):
            agree(new_server(), ClientExchange(KEY, padding))


def test_messages_out_of_order_are_refused() -> None:
    client = ClientExchange(KEY)
    server = new_server()
    (answer,), _ = serve(server, client.begin())
    request = client.take(answer)
    assert request is not None
    with pytest.raises(ExchangeError):  # no exchange has begun there
        new_server().receive(request, NOW)
    (answer,), _ = serve(server, request)
    last = client.take(answer)
    assert last is not None
    with pytest.raises(ExchangeError):
        new_server().receive(last, NOW)
    serve(server, last)
    with pytest.raises(ExchangeError):  # a repetition
        server.receive(last, NOW)


def test_acknowledgements_are_ignored() -> None:
    server, client = new_server(), ClientExchange(KEY)
    acks = exchange.pack_unencrypted(4, tl.write(mt.MsgsAck(msg_ids=[1, 2])))
    assert server.receive(acks, NOW) == []
    agree(server, client)
    assert server.receive(acks, NOW) == []
    assert client.agreed


def test_the_group_is_sound() -> None:
    assert DH_PRIME.bit_length() == 2048
    assert gmpy2.is_prime(DH_PRIME)
    assert gmpy2.is_prime(DH_PRIME // 2)
    assert DH_PRIME % 3 == 2  # what makes 3 generate the subgroup of prime order


def test_factors_are_fresh_and_fit() -> None:
    seen = set()
    for _ in range(16):
        sent, _ = serve(new_server(), ClientExchange(KEY).begin())
        answer = tl.read(sent[0][20:])
        assert len(answer.pq) == 8
        assert answer.server_public_key_fingerprints == [KEY.fingerprint, OTHER.fingerprint]
        seen |= {answer.pq, answer.server_nonce}
    assert len(seen) == 32


def test_extremes_of_randomness_still_give_31_bit_primes() -> None:
    for fill in (b"\x00", b"\xff"):
        tape = iter([fill * 4, b"\x01\x02\x03\x04"] * 8)
        server = ServerExchange([KEY], lambda n, tape=tape: next(tape) if n == 4 else bytes(n))  # type: ignore[misc]
        (event,) = server.receive(ClientExchange(KEY).begin(), NOW)
        assert isinstance(event, Send)
        pq = int.from_bytes(tl.read(event.payload[20:]).pq, "big")
        assert 2**60 <= pq < 2**62


def test_calls_that_do_not_fit_are_our_own_error() -> None:
    server = new_server()
    for call in (server.persisted, server.collision):
        with pytest.raises(RuntimeError):
            call(NOW)
    with pytest.raises(RuntimeError):
        server.computed(None, NOW)
    with pytest.raises(ValueError, match="RSA"):
        ServerExchange([], os.urandom)


def test_msg_ids_grow_when_the_clock_steps_back() -> None:
    server = new_server()
    found = []
    for now in (NOW, NOW - 100, NOW, NOW + 1):
        (event,) = server.receive(ClientExchange(KEY).begin(), now)
        assert isinstance(event, Send)
        found.append(struct.unpack_from("<q", event.payload, 8)[0])
    assert found == sorted(set(found))


@given(
    st.binary(max_size=400), st.booleans(), st.sampled_from([b"", b"\x78\x97\x46\x60", b"\xbe\xe4\x12\xd7"])
)
def test_garbage_raises_only_protocol_errors(data: bytes, framed: bool, head: bytes) -> None:
    server, client = new_server(), ClientExchange(KEY)
    server.receive(client.begin(), NOW)
    body = head + data
    try:
        server.receive(exchange.pack_unencrypted(0, body) if framed else body, NOW)
    except ProtocolError:
        return


@settings(max_examples=30)
@given(st.binary(min_size=256, max_size=256))
def test_garbage_in_an_rsa_block_raises_only_protocol_errors(block: bytes) -> None:
    block = (int.from_bytes(block, "big") % KEY.n).to_bytes(256, "big")
    with pytest.raises(ProtocolError):
        agree(new_server(), ClientExchange(KEY, lambda _, key: rsa_bare(block, key)))


@settings(max_examples=30)
@given(st.binary(max_size=400))
def test_garbage_in_the_dh_answer_raises_only_protocol_errors(data: bytes) -> None:
    def padded(_: bytes) -> bytes:
        hashed = sha1(data) + data
        return hashed + bytes(-len(hashed) % 16)

    with pytest.raises(ProtocolError):
        agree(new_server(), ClientExchange(KEY, falsify={"dh.padded": padded}))
