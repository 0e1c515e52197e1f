"""Login codes: made, tried and used up in Redis.

Guarantees: a code comes from `secrets`, belongs to one phone number and one auth key, lives five minutes,
and is used up by five wrong tries; a try is taken before the code is compared, so that many at once gain
nothing. Redis holds keyed digests only, which are compared in constant time. What is sent and what is guessed
wrongly is limited for each key, for each network and phone, and for each phone by all networks that its
account is not known from; so nobody uses up by their own requests what the owner may ask. Nothing here logs.

*Spec: User Authorization*
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from dataclasses import dataclass, replace
from typing import Final

from telesrv.clock import Clock
from telesrv.domain.errors import CodeExpired, CodeInvalid
from telesrv.domain.users import LoginCode
from telesrv.store.limits import LimitStore
from telesrv.store.redis import Redis

CODE_DIGITS: Final = 5
MAX_CODE_INPUT: Final = 64


@dataclass(frozen=True, slots=True)
class CodeRules:
    """How long codes live and how much of everything is allowed; times are seconds."""

    lifetime_s: int = 300
    verified_s: int = 900
    """How long after a right code an account may be signed up with it."""
    tries: int = 5
    resends: int = 3
    send_period_s: int = 3600
    sends_per_key: int = 20
    """Over all phones."""
    sends_per_network: int = 8
    """For one phone: two logins with every resend."""
    sends_per_phone: int = 40
    """By all networks that the account is not known from: five of them have to work together to use it up."""
    texts_per_phone: int = 40
    """How many go by the sender, which may cost money: as many as may be asked for."""
    guess_period_s: int = 6 * 3600
    wrong_guesses_per_network: int = 10
    wrong_guesses_per_phone: int = 20
    """By all networks that the account is not known from: one in 5,000 for a code of five digits."""


_PLENTY: Final = 2_000
DEV_RULES: Final = replace(
    CodeRules(),
    sends_per_network=_PLENTY,
    sends_per_phone=_PLENTY,
    texts_per_phone=_PLENTY,
    wrong_guesses_per_network=_PLENTY,
    wrong_guesses_per_phone=_PLENTY,
)
"""With a fixed development code there is nothing to guess and nothing is sent."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks for a code or gives one."""

    auth_key_id: int
    """The permanent key, which alone may use the code."""
    network: str = ""
    """As of `network_of`."""
    known: bool = False
    """A device of the account that has the phone is logged in from there."""


def network_of(address: str) -> str:
    """Returns what one subscriber has of the internet: an IPv4 address, or 56 bits of an IPv6 one."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 56), strict=False))
    return str(parsed)


class CodeStore:
    """The codes under way."""

    def __init__(
        self,
        redis: Redis,
        limits: LimitStore,
        clock: Clock,
        secret: bytes,
        *,
        dev_auth_code: str | None = None,
    ) -> None:
        self._redis = redis
        self._limits = limits
        self._clock = clock
        self._secret = secret
        self._dev_auth_code = dev_auth_code
        self._rules = DEV_RULES if dev_auth_code else CodeRules()

    async def create(self, phone: str, asker: Asker) -> LoginCode:
        """Makes a code for *phone*; the key's earlier code for it no longer counts.

        Args:
            phone: digits only.
        Returns:
            The code with its phone_code_hash; deliver it and forget it.
        Raises:
            FloodWait: too many codes for this phone, or by this key or network.
        """
        now = self._now()
        await self._count_send(phone, asker)
        made = LoginCode(phone, self._new_code(), secrets.token_hex(9), now + self._rules.lifetime_s)
        await self._redis.script(
            "code_put",
            [self._key(phone, asker.auth_key_id)],
            [
                self._digest(phone, made.phone_code_hash),
                self._digest(phone, made.phone_code_hash, made.code),
                made.expires_at,
                self._rules.tries,
                self._rules.resends,
                self._keep_ms(),
            ],
        )
        return made

    async def resend(self, phone: str, phone_code_hash: str, asker: Asker) -> LoginCode:
        """Makes another code under the same phone_code_hash; tries used before stay used.

        Raises:
            CodeExpired: there is no such code, or it was sent again too often.
            FloodWait: too many codes for this phone, or by this key or network.
        """
        now = self._now()
        key = self._key(phone, asker.auth_key_id)
        if not self._is_hash((await self._fields(key, "hash"))[0], phone, phone_code_hash):
            raise CodeExpired
        await self._count_send(phone, asker)
        made = LoginCode(phone, self._new_code(), phone_code_hash, now + self._rules.lifetime_s)
        done = await self._redis.script(
            "code_resend",
            [key],
            [
                self._digest(phone, phone_code_hash),
                self._digest(phone, phone_code_hash, made.code),
                now,
                made.expires_at,
                self._keep_ms(),
            ],
        )
        if not done:
            raise CodeExpired
        return made

    async def text(self, phone: str, asker: Asker) -> None:
        """Counts that a code goes to *phone* by the sender; networks that the account is known from have a
        share of their own.

        Raises:
            FloodWait: too many do; nothing is to be sent.
        """
        kind = "codes:text:known" if asker.known else "codes:text"
        await self._limits.hit(kind, phone, self._rules.texts_per_phone, self._rules.send_period_s)

    async def cancel(self, phone: str, phone_code_hash: str, auth_key_id: int) -> bool:
        """Withdraws a code; returns whether there was one."""
        return await self._consume(phone, phone_code_hash, auth_key_id, only_verified=False)

    async def check(self, phone: str, phone_code_hash: str, code: str, asker: Asker) -> None:
        """Returns when *code* is right, and marks it so; it stays usable until `consume`.

        Raises:
            CodeInvalid: the code is wrong; one try is gone.
            CodeExpired: no such code, too late, or its tries are used up.
            FloodWait: too many wrong guesses for this phone, or from this network, whatever the code.
        """
        now = self._now()
        key = self._key(phone, asker.auth_key_id)
        taken = await self._redis.script("code_try", [key], [now])
        if not taken:
            raise CodeExpired
        stored_hash, stored_code = taken
        if not self._is_hash(stored_hash, phone, phone_code_hash):
            raise CodeExpired
        await self._count_guess(phone, asker)
        given = self._digest(phone, phone_code_hash, code[:MAX_CODE_INPUT])
        if not hmac.compare_digest(stored_code, given.encode()):
            raise CodeInvalid
        await self._uncount_guess(phone, asker)
        marked = await self._redis.script(
            "code_verified",
            [key],
            [self._digest(phone, phone_code_hash), given, now + self._rules.verified_s, self._keep_ms()],
        )
        if not marked:
            raise CodeExpired

    async def verified(self, phone: str, phone_code_hash: str, auth_key_id: int) -> bool:
        """Tells whether this key gave the right code for *phone* a short while ago."""
        stored, until = await self._fields(self._key(phone, auth_key_id), "hash", "verified_until")
        if until is None or self._now() >= int(until):
            return False
        return self._is_hash(stored, phone, phone_code_hash)

    async def consume(self, phone: str, phone_code_hash: str, auth_key_id: int) -> bool:
        """Uses a rightly given code up; True for exactly one caller."""
        return await self._consume(phone, phone_code_hash, auth_key_id, only_verified=True)

    async def _consume(
        self,
        phone: str,
        phone_code_hash: str,
        auth_key_id: int,
        *,
        only_verified: bool,
    ) -> bool:
        digest = self._digest(phone, phone_code_hash)
        done = await self._redis.script(
            "code_consume",
            [self._key(phone, auth_key_id)],
            [digest, "1" if only_verified else "0", self._now()],
        )
        return bool(done)

    async def _fields(self, key: str, *names: str) -> list[bytes | None]:
        client, full = self._redis.client, self._redis.key(key)
        return await self._redis.call(lambda: client.hmget(full, list(names)))

    def _is_hash(self, stored: bytes | None, phone: str, phone_code_hash: str) -> bool:
        """Tells in constant time whether the stored digest is that of *phone_code_hash*."""
        expected = self._digest(phone, phone_code_hash).encode()
        return stored is not None and hmac.compare_digest(stored, expected)

    async def _count_send(self, phone: str, asker: Asker) -> None:
        """Counts at the narrowest limit first: what that refuses takes nothing from the others."""
        rules, hit = self._rules, self._limits.hit
        await hit("codes:key", asker.auth_key_id, rules.sends_per_key, rules.send_period_s)
        await hit("codes:network", f"{phone}:{asker.network}", rules.sends_per_network, rules.send_period_s)
        if not asker.known:
            await hit("codes:phone", phone, rules.sends_per_phone, rules.send_period_s)

    async def _count_guess(self, phone: str, asker: Asker) -> None:
        """Counts a guess as wrong before it is looked at, so that many at once cannot pass the limit."""
        for kind, key, limit in self._guesses(phone, asker):
            await self._limits.hit(kind, key, limit, self._rules.guess_period_s)

    async def _uncount_guess(self, phone: str, asker: Asker) -> None:
        for kind, key, limit in self._guesses(phone, asker):
            await self._limits.hit(kind, key, limit + 1, self._rules.guess_period_s, cost=-1)

    def _guesses(self, phone: str, asker: Asker) -> list[tuple[str, str, int]]:
        """Returns the limits of wrong guesses as (kind, key, limit), the narrowest first."""
        rules = self._rules
        limits = [("codes:guess:network", f"{phone}:{asker.network}", rules.wrong_guesses_per_network)]
        if not asker.known:
            limits.append(("codes:guess", phone, rules.wrong_guesses_per_phone))
        return limits

    def _now(self) -> int:
        return int(self._clock.time())

    def _new_code(self) -> str:
        if self._dev_auth_code is not None:
            return self._dev_auth_code
        return f"{secrets.randbelow(10**CODE_DIGITS):0{CODE_DIGITS}d}"

    def _digest(self, phone: str, *parts: str) -> str:
        text = "\0".join(("login_code", phone, *parts))
        return hmac.new(self._secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def _keep_ms(self) -> int:
        """How long Redis keeps a code at most; what counts is expires_at, by our clock."""
        return (self._rules.lifetime_s + self._rules.verified_s) * 1000

    @staticmethod
    def _key(phone: str, auth_key_id: int) -> str:
        return f"code:{{{phone}}}:{auth_key_id}"
