"""The server's side of creating an authorization key: a machine that never waits, computes or stores.

Unencrypted payloads go in, events come out. The caller does what they say and feeds the outcome back:

    receive(req_pq, req_pq_multi)      -> Send(resPQ)
    receive(req_DH_params)             -> Compute(open the inner data, choose a, g_a)
    computed(...)                      -> Send(server_DH_params_ok)
    receive(set_client_DH_params)      -> Compute(g_b ** a)
    computed(...)                      -> KeyCreated      store the key, then
    persisted()                        -> Send(dh_gen_ok)         the next exchange may begin
    collision()                        -> Send(dh_gen_retry)      set_client_DH_params comes again

Guarantees: every check of the security guidelines that a server can make is made, hashes and nonces in
constant time; a key is announced to the client only after it was persisted; a new req_pq at any point where a
message may come starts over, so that a probe by the legacy req_pq costs nothing; the number of exchanges and
of retries on one connection is bounded, because each costs us a private RSA operation. What fails a check
raises, the machine is dead from then on, and nothing is answered: all failures look alike from outside.

*Spec: Creating an Authorization Key; Security Guidelines for Client Developers*
"""

from __future__ import annotations

import enum
import hmac
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import gmpy2

from telesrv import tl
from telesrv.mtproto.crypto import AuthKey, ige_decrypt, ige_encrypt, sha1
from telesrv.mtproto.errors import ExchangeError, ProtocolError
from telesrv.mtproto.rsa import RSAKey, power, unpad_old, unpad_rsa_pad
from telesrv.tl import mt

__all__ = [
    "DH_PRIME",
    "Compute",
    "ExchangeEvent",
    "KeyCreated",
    "Send",
    "ServerExchange",
    "pack_unencrypted",
    "unpack_unencrypted",
]

# The well-known safe prime of the public description; g = 3 generates the subgroup of order (p - 1) / 2.
DH_PRIME: Final = int(
    "c71caeb9c6b1c9048e6c522f70f13f73980d40238e3e21c14934d037563d930f48198a0aa7c14058229493d22530f4db"
    "fa336f6e0ac925139543aed44cce7c3720fd51f69458705ac68cd4fe6b6b13abdc9746512969328454f18faf8c595f64"
    "2477fe96bb2a941d5bcd1d4ac8cc49880708fa9b378e3c4f3a9060bee67cf9a4a4a695811051907e162753b56b0f6b41"
    "0dba74d8a84b2a14b3144e0ef1284754fd17ed950d5965b4b9dd46582db1178d169c6bc465b0d6ff9ca3928fef5b9ae4"
    "e418fc15e83ebea0f87fa9ff5eed70050ded2849f47bf959d956850ce929851f0d8115f635b105ee2e4e15d04b2454bf"
    "6f4fadf034b10403119cd8e3b92fcc5b",
    16,
)
DH_G: Final = 3
DH_BYTES: Final = 256
DH_MARGIN: Final = 1 << (2048 - 64)  # g_a and g_b keep this distance from 0 and from the prime

MAX_EXCHANGES: Final = 32  # of one connection: a probe, a permanent and a few temporary keys need five
MAX_RETRIES: Final = 5  # a collision of key ids is a matter of chance, and a second one of bad randomness
MAX_SURPLUS_BYTES: Final = 1024  # random padding of an unencrypted message: 252 seen
MAX_BODY_BYTES: Final = 4096  # a req_DH_params has 340, and comes from anybody
MAX_EXPIRES_IN_S: Final = 7 * 86400  # clients ask for a day

# Of what may come before a key exists nothing nests, is compressed or is longer than a number of 2048 bits.
_LIMITS: Final = tl.Limits(vector_items=256, string_bytes=512, depth=4, inflated_bytes=0)
_HEADER = struct.Struct("<qqi")
_PRIME_BITS: Final = 31  # two such primes fill 4 bytes each, and their product stays below 2**63
_BLOCK: Final = 16
_HASH_BYTES: Final = 20


@dataclass(frozen=True, slots=True)
class Send:
    """Send this payload, an unencrypted message, as one frame."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Compute:
    """Run ``job`` in a thread (milliseconds of arithmetic) and give its result to ``computed``.

    A job touches nothing of the machine and raises nothing for what the peer did.
    """

    job: Callable[[], object]


@dataclass(frozen=True, slots=True)
class KeyCreated:
    """Persist this key, then call ``persisted``; call ``collision`` when its id is taken.

    ``server_salt`` is the first salt by the key exchange's own rule, signed 64-bit. ``expires_in`` is None
    for a permanent key, else seconds. ``dc_id`` is what the client wrote, raw (negative: media, + 10000:
    test), or None when it named no DC.
    """

    auth_key: AuthKey
    server_salt: int
    expires_in: int | None
    dc_id: int | None


ExchangeEvent = Send | Compute | KeyCreated


class _State(enum.Enum):
    IDLE = "a req_pq"
    PQ_SENT = "a req_DH_params"
    OPENING = "the inner data to be opened"
    DH_SENT = "a set_client_DH_params"
    AGREEING = "the key to be computed"
    CREATED = "the key to be stored"
    DEAD = "nothing any more"


@dataclass(slots=True)
class _Progress:
    """What one exchange has agreed on so far."""

    nonce: bytes
    server_nonce: bytes
    p: int
    q: int
    new_nonce: bytes = b""
    expires_in: int | None = None
    dc_id: int | None = None
    secret: int = 0
    retry_id: bytes = bytes(8)
    retries: int = 0
    auth_key: AuthKey | None = None


@dataclass(frozen=True, slots=True)
class _Opened:
    """The outcome of opening the inner data: what it says, and our half of the Diffie-Hellman exchange."""

    new_nonce: bytes
    expires_in: int | None
    dc_id: int | None
    secret: int
    g_a: int


_Inner = mt.PQInnerData | mt.PQInnerDataDc | mt.PQInnerDataTemp | mt.PQInnerDataTempDc


class ServerExchange:
    """One connection's key exchanges, one after another.

    Args:
        keys: the RSA keys offered, the preferred one first; at least one.
        random: returns that many random bytes of cryptographic quality; jobs call it from their thread.

    *Spec: Creating an Authorization Key*
    """

    def __init__(self, keys: Sequence[RSAKey], random: Callable[[int], bytes]) -> None:
        if not keys:
            raise ValueError("a key exchange needs an RSA key")
        self._keys = {key.fingerprint: key for key in keys}
        self._random = random
        self._state = _State.IDLE
        self._begun: _Progress | None = None
        self._exchanges = 0
        self._last_msg_id = 0

    @property
    def is_waiting_for_caller(self) -> bool:
        """Whether a job or the storing of a key is under way, so that no message may come."""
        return self._state in (_State.OPENING, _State.AGREEING, _State.CREATED)

    def receive(self, payload: bytes, now: float) -> list[ExchangeEvent]:
        """Takes one unencrypted message and returns what to do.

        Args:
            payload: the frame's payload, whose auth_key_id is 0; random bytes may follow the message.
            now: seconds since the epoch, for msg_ids and server_time.

        Raises:
            ProtocolError: a check failed or the message does not belong here; close without an answer.
        """
        try:
            return self._receive(unpack_unencrypted(payload), now)
        except ProtocolError:
            self._state = _State.DEAD
            raise

    def computed(self, result: object, now: float) -> list[ExchangeEvent]:
        """Takes the result of the last ``Compute`` job and returns what to do.

        Raises:
            ProtocolError: what the client sent failed a check; close without an answer.
        """
        try:
            if isinstance(result, ProtocolError):
                raise result
            if self._state is _State.OPENING and isinstance(result, _Opened):
                return self._opened(result, now)
            if self._state is _State.AGREEING and isinstance(result, AuthKey):
                return self._agreed(result, now)
        except ProtocolError:
            self._state = _State.DEAD
            raise
        raise RuntimeError(f"a result while the exchange waits for {self._state.value}")

    def persisted(self, now: float) -> list[ExchangeEvent]:
        """Tells the client that the key, which is stored now, is good; the next exchange may begin.

        *Spec: Creating an Authorization Key, "dh_gen_ok"*
        """
        progress = self._created()
        self._state, self._begun = _State.IDLE, None
        answer = mt.DhGenOk(
            nonce=progress.nonce,
            server_nonce=progress.server_nonce,
            new_nonce_hash1=_new_nonce_hash(progress, 1),
        )
        return [self._send(answer, now)]

    def collision(self, now: float) -> list[ExchangeEvent]:
        """Asks the client for another g_b, because another key has this key's id.

        Raises:
            ExchangeError: it collided too often; close.

        *Spec: Creating an Authorization Key, "dh_gen_retry"*
        """
        progress = self._created()
        assert progress.auth_key is not None
        progress.retries += 1
        if progress.retries > MAX_RETRIES:
            self._state = _State.DEAD
            raise ExchangeError("every key collides")
        answer = mt.DhGenRetry(
            nonce=progress.nonce,
            server_nonce=progress.server_nonce,
            new_nonce_hash2=_new_nonce_hash(progress, 2),
        )
        progress.retry_id, progress.auth_key = progress.auth_key.aux_hash, None
        self._state = _State.DH_SENT
        return [self._send(answer, now)]

    def _receive(self, body: bytes, now: float) -> list[ExchangeEvent]:
        if self.is_waiting_for_caller or self._state is _State.DEAD:
            raise ExchangeError(f"a message while the exchange waits for {self._state.value}")
        query, end = tl.read_prefix(body, limits=_LIMITS)
        if len(body) - end > MAX_SURPLUS_BYTES:
            raise ExchangeError(f"{len(body) - end} bytes behind the message")
        if isinstance(query, mt.ReqPq | mt.ReqPqMulti):
            return self._begin(query.nonce, now)
        if isinstance(query, mt.MsgsAck):  # some clients acknowledge unencrypted answers; it means nothing
            return []
        if isinstance(query, mt.ReqDHParams) and self._state is _State.PQ_SENT:
            return self._open(query)
        if isinstance(query, mt.SetClientDHParams) and self._state is _State.DH_SENT:
            return self._agree(query)
        raise ExchangeError(f"{type(query).__name__} where {self._state.value} was due")

    # req_pq#60469778 nonce:int128 = ResPQ;
    # req_pq_multi#be7e8ef1 nonce:int128 = ResPQ;
    def _begin(self, nonce: bytes, now: float) -> list[ExchangeEvent]:
        self._exchanges += 1
        if self._exchanges > MAX_EXCHANGES:
            raise ExchangeError("too many key exchanges on one connection")
        p, q = self._factors()
        self._begun = _Progress(nonce=nonce, server_nonce=self._random(16), p=p, q=q)
        self._state = _State.PQ_SENT
        answer = mt.ResPQ(
            nonce=nonce,
            server_nonce=self._begun.server_nonce,
            pq=(p * q).to_bytes(8, "big"),
            server_public_key_fingerprints=list(self._keys),
        )
        return [self._send(answer, now)]

    def _factors(self) -> tuple[int, int]:
        """Returns two different primes of 31 bits, the smaller first."""
        while True:
            p, q = sorted(self._prime() for _ in range(2))
            if p != q:
                return p, q

    def _prime(self) -> int:
        start = int.from_bytes(self._random(4), "little") & (1 << _PRIME_BITS - 1) - 1
        # 2**31 - 1 is prime, so that the next prime of a smaller number has 31 bits still.
        return int(gmpy2.next_prime(start + (1 << _PRIME_BITS - 1) - 1))

    # req_DH_params#d712e4be nonce:int128 server_nonce:int128 p:string q:string
    #     public_key_fingerprint:long encrypted_data:string = Server_DH_Params;
    def _open(self, query: mt.ReqDHParams) -> list[ExchangeEvent]:
        progress = self._matching(query.nonce, query.server_nonce)
        if _number(query.p) != progress.p or _number(query.q) != progress.q:
            raise ExchangeError("p and q are not the factors of pq")
        key = self._keys.get(query.public_key_fingerprint)
        if key is None:
            raise ExchangeError("no RSA key has this fingerprint")
        encrypted, random = query.encrypted_data, self._random

        def job() -> object:
            try:
                return _open_inner_data(key, encrypted, progress, random)
            except ProtocolError as error:
                return error

        self._state = _State.OPENING
        return [Compute(job)]

    # server_DH_params_ok#d0e8075c nonce:int128 server_nonce:int128 encrypted_answer:string
    #     = Server_DH_Params;
    def _opened(self, opened: _Opened, now: float) -> list[ExchangeEvent]:
        progress = self._progress()
        progress.new_nonce, progress.secret = opened.new_nonce, opened.secret
        progress.expires_in, progress.dc_id = opened.expires_in, opened.dc_id
        inner = tl.write(
            mt.ServerDHInnerData(
                nonce=progress.nonce,
                server_nonce=progress.server_nonce,
                g=DH_G,
                dh_prime=DH_PRIME.to_bytes(DH_BYTES, "big"),
                g_a=opened.g_a.to_bytes(DH_BYTES, "big"),
                server_time=int(now),
            )
        )
        hashed = sha1(inner) + inner
        padded = hashed + self._random(-len(hashed) % _BLOCK)
        answer = mt.ServerDHParamsOk(
            nonce=progress.nonce,
            server_nonce=progress.server_nonce,
            encrypted_answer=ige_encrypt(padded, *_tmp_aes(progress)),
        )
        self._state = _State.DH_SENT
        return [self._send(answer, now)]

    # set_client_DH_params#f5045f1f nonce:int128 server_nonce:int128 encrypted_data:string
    #     = Set_client_DH_params_answer;
    def _agree(self, query: mt.SetClientDHParams) -> list[ExchangeEvent]:
        progress = self._matching(query.nonce, query.server_nonce)
        inner = _open_client_dh(query.encrypted_data, progress)
        _check_nonces(progress, inner.nonce, inner.server_nonce)
        retry_id = inner.retry_id.to_bytes(8, "little", signed=True)
        if not hmac.compare_digest(retry_id, progress.retry_id):
            raise ExchangeError("retry_id is not the aux_hash of the key that collided")
        g_b, secret = _number(inner.g_b), progress.secret
        if not DH_MARGIN <= g_b <= DH_PRIME - DH_MARGIN:
            raise ExchangeError("g_b is out of range")

        def job() -> object:
            return AuthKey(power(g_b, secret, DH_PRIME).to_bytes(DH_BYTES, "big"))

        self._state = _State.AGREEING
        return [Compute(job)]

    def _agreed(self, auth_key: AuthKey, now: float) -> list[ExchangeEvent]:
        progress = self._progress()
        progress.auth_key = auth_key
        self._state = _State.CREATED
        if auth_key.id == 0:  # reserved: it marks unencrypted messages
            return self.collision(now)
        mixed = bytes(a ^ b for a, b in zip(progress.new_nonce[:8], progress.server_nonce[:8], strict=True))
        return [
            KeyCreated(
                auth_key=auth_key,
                server_salt=int.from_bytes(mixed, "little", signed=True),
                expires_in=progress.expires_in,
                dc_id=progress.dc_id,
            )
        ]

    def _progress(self) -> _Progress:
        if self._begun is None:
            raise RuntimeError("no exchange has begun")
        return self._begun

    def _matching(self, nonce: bytes, server_nonce: bytes) -> _Progress:
        progress = self._progress()
        _check_nonces(progress, nonce, server_nonce)
        return progress

    def _created(self) -> _Progress:
        if self._state is not _State.CREATED:
            raise RuntimeError(f"no key is to be stored: the exchange waits for {self._state.value}")
        return self._progress()

    def _send(self, answer: object, now: float) -> Send:
        # An answer's msg_id is 1 modulo 4, and above every earlier one of the connection.
        msg_id = max(int(now * 2**32) & ~3 | 1, self._last_msg_id + 4)
        self._last_msg_id = msg_id
        return Send(pack_unencrypted(msg_id, tl.write(answer)))


def pack_unencrypted(msg_id: int, body: bytes) -> bytes:
    """Returns an unencrypted message: auth_key_id 0 (8), msg_id (8), length (4), body.

    *Spec: Mobile Protocol: Detailed Description, "Unencrypted Message"*
    """
    return _HEADER.pack(0, msg_id, len(body)) + body


def unpack_unencrypted(payload: bytes) -> bytes:
    """Returns the body of an unencrypted message, its own padding included.

    Raises:
        ExchangeError: it is encrypted, cut short, too long, or followed by more than random padding.

    *Spec: Mobile Protocol: Detailed Description, "Unencrypted Message"*
    """
    if len(payload) < _HEADER.size:
        raise ExchangeError("an unencrypted message is longer")
    auth_key_id, _msg_id, size = _HEADER.unpack_from(payload)
    surplus = len(payload) - _HEADER.size - size
    if auth_key_id != 0 or not 0 <= size <= MAX_BODY_BYTES or not 0 <= surplus <= MAX_SURPLUS_BYTES:
        raise ExchangeError("not an unencrypted message")
    return bytes(payload[_HEADER.size : _HEADER.size + size])


def _number(data: bytes) -> int:
    if len(data) > DH_BYTES:
        raise ExchangeError(f"a number of {len(data)} bytes")
    return int.from_bytes(data, "big")


def _check_nonces(progress: _Progress, nonce: bytes, server_nonce: bytes) -> None:
    ours = progress.nonce + progress.server_nonce
    if not hmac.compare_digest(ours, nonce + server_nonce):
        raise ExchangeError("nonce or server_nonce is of another exchange")


def _tmp_aes(progress: _Progress) -> tuple[bytes, bytes]:
    """Returns tmp_aes_key and tmp_aes_iv."""
    new, server = progress.new_nonce, progress.server_nonce
    middle = sha1(server + new)
    return sha1(new + server) + middle[:12], middle[12:] + sha1(new + new) + new[:4]


def _new_nonce_hash(progress: _Progress, number: int) -> bytes:
    assert progress.auth_key is not None
    return sha1(progress.new_nonce + bytes((number,)) + progress.auth_key.aux_hash)[4:]


def _open_inner_data(
    key: RSAKey, encrypted: bytes, progress: _Progress, random: Callable[[int], bytes]
) -> _Opened:
    """Returns what the RSA-encrypted inner data say, checked, with our a and g_a.

    Raises:
        ProtocolError: a check failed.
    """
    inner = _parse_inner_data(key.decrypt_raw(encrypted))
    _check_nonces(progress, inner.nonce, inner.server_nonce)
    if (
        _number(inner.p) != progress.p
        or _number(inner.q) != progress.q
        or _number(inner.pq) != progress.p * progress.q
    ):
        raise ExchangeError("the inner data are of another pq")
    expires_in = dc_id = None
    if isinstance(inner, mt.PQInnerDataTemp | mt.PQInnerDataTempDc):
        expires_in = inner.expires_in
        if not 0 < expires_in <= MAX_EXPIRES_IN_S:
            raise ExchangeError(f"a temporary key for {expires_in} s")
    if isinstance(inner, mt.PQInnerDataDc | mt.PQInnerDataTempDc):
        dc_id = inner.dc
    while True:
        secret = int.from_bytes(random(DH_BYTES), "big")
        g_a = power(DH_G, secret, DH_PRIME) if secret else 0
        if DH_MARGIN <= g_a <= DH_PRIME - DH_MARGIN:
            return _Opened(inner.new_nonce, expires_in, dc_id, secret, g_a)


def _parse_inner_data(block: bytes) -> _Inner:
    """Returns the inner data of a decrypted RSA block, by RSA_PAD or, failing that, by the older padding.

    Raises:
        ProtocolError: it is neither, or holds something else.
    """
    data = unpad_rsa_pad(block)
    if data is not None:
        inner, _ = tl.read_prefix(data, limits=_LIMITS)
    else:
        old = unpad_old(block)
        if old is None:
            raise ExchangeError("encrypted_data has no padding that is known")
        digest, data = old
        inner, end = tl.read_prefix(data, limits=_LIMITS)
        if not hmac.compare_digest(sha1(data[:end]), digest):
            raise ExchangeError("the hash of the inner data is wrong")
    if not isinstance(inner, _Inner):
        raise ExchangeError(f"{type(inner).__name__} as inner data")
    return inner


def _open_client_dh(encrypted: bytes, progress: _Progress) -> mt.ClientDHInnerData:
    """Returns the client's half of the Diffie-Hellman exchange.

    Raises:
        ProtocolError: the length, hash, padding or type is wrong.
    """
    if len(encrypted) < 2 * _BLOCK or len(encrypted) % _BLOCK:
        raise ExchangeError(f"encrypted_data of {len(encrypted)} bytes")
    plain = ige_decrypt(encrypted, *_tmp_aes(progress))
    digest, data = plain[:_HASH_BYTES], plain[_HASH_BYTES:]
    inner, end = tl.read_prefix(data, limits=_LIMITS)
    if len(data) - end >= _BLOCK or not hmac.compare_digest(sha1(data[:end]), digest):
        raise ExchangeError("the hash or padding of client_DH_inner_data is wrong")
    if not isinstance(inner, mt.ClientDHInnerData):
        raise ExchangeError(f"{type(inner).__name__} as client_DH_inner_data")
    return inner
