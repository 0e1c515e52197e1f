"""What becomes of a call whatever happens to it, and the surface every client asks for at start."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import structlog.testing

from telesrv import tl
from telesrv.domain.errors import DomainError, Unavailable
from telesrv.rpc.registry import HANDLERS, Handler, Status, load
from telesrv.tl import functions, mt, types
from tests.rpc.devices import Refused, Server, serving

LAYERS = (152, 158, 181, 192, 198, 214, 220, 227, 229)


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with serving(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


@contextlib.contextmanager
def raising(method: type, error: Exception) -> Iterator[None]:
    """Serves *method* by a handler that raises."""

    async def broken(ctx: object, request: object) -> object:
        raise error

    before = HANDLERS[method]
    HANDLERS[method] = Handler(before.name, broken, before.result, before.status, before.before_login)
    try:
        yield
    finally:
        HANDLERS[method] = before


async def test_a_bug_is_one_traceback_and_a_bare_500(server: Server) -> None:
    device = await server.device()
    broken = raising(functions.help.GetConfig, ValueError("secret key table"))
    with broken, structlog.testing.capture_logs() as logs, pytest.raises(Refused, match=r"^500 INTERNAL$"):
        await device.call(functions.help.GetConfig())
    assert [line["event"] for line in logs] == ["a call failed"]
    assert isinstance(await device.call(functions.help.GetConfig()), types.Config)


async def test_an_outage_is_a_500_that_logs_nobody_out(server: Server) -> None:
    device, _ = await server.account()
    away = raising(functions.help.GetConfig, Unavailable("PostgreSQL"))
    refused = pytest.raises(Refused, match="500 WORKER_BUSY_TOO_LONG_RETRY")
    with away, structlog.testing.capture_logs(), refused:
        await device.call(functions.help.GetConfig())
    await server.store.pool.close()
    device.caller.auth_key_id += 1
    with structlog.testing.capture_logs(), pytest.raises(Refused, match=r"^500 "):
        await device.call(functions.help.GetConfig())


async def test_a_nameless_domain_error_is_a_bug(server: Server) -> None:
    device = await server.device()
    broken = raising(functions.help.GetConfig, DomainError("x"))
    with broken, structlog.testing.capture_logs(), pytest.raises(Refused, match="500 INTERNAL"):
        await device.call(functions.help.GetConfig())


async def test_what_is_not_served_is_refused_and_counted(server: Server) -> None:
    device, _ = await server.account()
    with pytest.raises(Refused, match="400 METHOD_NOT_SUPPORTED"):
        await device.call(functions.phone.GetCallConfig())
    body, ok = await device.raw(b"\xef\xbe\xad\xde")
    assert not ok
    error = tl.read(body)
    assert isinstance(error, mt.RpcError)
    assert error.error_message == "INPUT_METHOD_INVALID_3735928559"
    await server.store.compat.flush()
    counted = {calls.method for calls in await server.store.compat.table()}
    assert {"phone.getCallConfig", "deadbeef"} <= counted


async def test_before_login_only_what_needs_no_account_is_answered(server: Server) -> None:
    device = await server.device()
    for method, handler in load().items():
        if not handler.before_login:
            continue
        assert method.__module__.rpartition(".")[2] in ("auth", "help", "langpack"), method
    for method in (functions.contacts.GetContacts(hash=0), functions.account.GetPassword()):
        with pytest.raises(Refused, match="401 AUTH_KEY_UNREGISTERED"):
            await device.call(method)


async def test_the_layer_is_kept_with_the_permanent_key(server: Server) -> None:
    device = await server.device()
    init = functions.InitConnection(
        api_id=17,
        device_model="Phone",
        system_version="1",
        app_version="2",
        system_lang_code="en",
        lang_pack="",
        lang_code="en",
        query=functions.help.GetNearestDc(),
    )
    await device.raw(tl.write(functions.InvokeWithLayer(layer=181, query=init)))
    record = await server.store.auth_keys.get(device.caller.auth_key_id)
    assert record is not None
    assert (record.layer, record.client.api_id, device.caller.layer) == (181, 17, 181)
    device.caller.layer = 0
    assert await server.dispatcher.identify(device.caller)
    assert device.caller.layer == 181


async def test_sessions_hear_of_a_login_they_missed(server: Server) -> None:
    device, _ = await server.account()
    key, user_id = device.caller.auth_key_id, device.user_id
    device.caller.user_id = None
    server.sessions.told.clear()
    assert await server.dispatcher.identify(device.caller)
    assert (device.caller.user_id, server.sessions.told) == (user_id, [("in", key, user_id)])
    await server.store.accounts.log_out(key)
    assert await server.dispatcher.identify(device.caller)
    assert (device.caller.user_id, server.sessions.told[-1]) == (None, ("out", key))


async def test_a_destroyed_key_is_gone_with_its_login(server: Server) -> None:
    device, _ = await server.account()
    key = device.caller.auth_key_id
    assert await server.dispatcher.destroy_auth_key(device.caller)
    assert await server.store.auth_keys.get(key) is None
    assert await server.store.accounts.authorization(key) is None


async def test_the_config_names_this_server_for_every_dc(server: Server) -> None:
    device = await server.device()
    device.caller.dc_id = 4
    config = await device.call(functions.help.GetConfig())
    assert [option.id for option in config.dc_options] == [1, 2, 3, 4, 5]
    assert {(option.ip_address, option.port) for option in config.dc_options} == {("192.0.2.1", 2398)}
    assert all(
        option.tcpo_only and option.static and not option.cdn and not option.ipv6
        for option in config.dc_options
    )
    assert (config.this_dc, config.test_mode) == (4, False)
    assert config.expires > config.date == int(server.clock.time())
    nearest = await device.call(functions.help.GetNearestDc())
    assert (nearest.this_dc, nearest.nearest_dc) == (4, 4)


_VALUES: dict[str, Any] = {
    "peer": types.InputPeerSelf(),
    "id": [],
    "user_id": types.InputUserSelf(),
    "stickerset": types.InputStickerSetAnimatedEmoji(),
    "key": types.InputPrivacyKeyStatusTimestamp(),
    "channel": types.InputChannelEmpty(),
    "media": types.InputStickeredMediaPhoto(id=types.InputPhotoEmpty()),
    "geo_point": types.InputGeoPointEmpty(),
    "password": types.InputCheckPasswordEmpty(),
    "filter": types.ChannelParticipantsRecent(),
    "bytes": b"",
    "token": b"",
    "secret": b"",
    "app_sandbox": False,
}


def _request(method: type) -> Any:
    """Returns a call of the method with the plainest arguments."""
    fields = {}
    for name in method.__slots__:
        if name in _VALUES:
            fields[name] = _VALUES[name]
        elif name in ("keys", "events", "wallpapers", "other_uids", "document_id", "lang_codes", "filters"):
            fields[name] = []
        elif name in ("data", "lang_code", "lang_pack", "source", "path", "suggestion", "referer", "q"):
            fields[name] = ""
        else:
            fields[name] = 0
    return method(**fields)


async def test_every_start_up_answer_can_be_read_in_every_layer(server: Server) -> None:
    """What is stubbed is written in each layer that has the method, without a traceback."""
    device, _ = await server.account()
    methods = [m for m, h in load().items() if h.status is Status.STUB]
    assert len(methods) > 100
    for layer, method in itertools.product(LAYERS, methods):
        device.caller.layer = layer
        request = _filled(method)
        if request is None:
            continue
        with structlog.testing.capture_logs() as logs:
            body, _ = await device.raw(tl.write(request))
        failures = [line for line in logs if line["log_level"] in ("error", "critical")]
        assert not failures, (layer, method, failures)
        assert len(body) >= 4


def _filled(method: type) -> Any:
    """Returns a call of the method that the newest layer can write, or None when arguments are missing."""
    for ids_ in ([], types.InputUserSelf(), types.InputPeerSelf()):
        candidate = _request(method)
        if "id" in method.__slots__:
            candidate.id = ids_
        try:
            tl.read(tl.write(candidate))
        except (TypeError, AttributeError, tl.ProtocolError):
            continue
        return candidate
    return None


START_UP = (
    functions.account.GetReactionsNotifySettings(),
    functions.account.GetContentSettings(),
    functions.account.GetWebBrowserSettings(hash=0),
    functions.account.GetDefaultEmojiStatuses(hash=0),
    functions.aicompose.GetTones(hash=0),
    functions.contacts.GetTopPeers(correspondents=True, offset=0, limit=1, hash=0),
    functions.help.GetAppConfig(hash=0),
    functions.help.GetCountriesList(lang_code="", hash=0),
    functions.help.GetPeerColors(hash=0),
    functions.help.GetPeerProfileColors(hash=0),
    functions.help.GetPremiumPromo(),
    functions.help.GetPromoData(),
    functions.help.GetTermsOfServiceUpdate(),
    functions.langpack.GetLangPack(lang_pack="tdesktop", lang_code="en"),
    functions.messages.GetAttachMenuBots(hash=0),
    functions.messages.GetAvailableEffects(hash=0),
    functions.messages.GetAvailableReactions(hash=0),
    functions.messages.GetDialogFilters(),
    functions.messages.GetEmojiGroups(hash=0),
    functions.messages.GetEmojiStickerGroups(hash=0),
    functions.messages.GetQuickReplies(hash=0),
    functions.messages.GetStickers(emoticon="x", hash=0),
    functions.stories.GetAllStories(),
)


async def test_start_up_calls_are_answered(server: Server) -> None:
    device, _ = await server.account()
    for method in START_UP:
        answer = await device.call(method)
        expires = getattr(answer, "expires", None)
        assert expires is None or expires > server.clock.time() + 3600, method


async def test_old_layers_get_their_own_kind_of_answer(server: Server) -> None:
    device, _ = await server.account()
    device.caller.layer = 152
    body, ok = await device.raw(tl.write(functions.messages.GetDialogFilters()))
    assert (ok, body) == (True, bytes.fromhex("15c4b51c01000000ae933236"))
    body, ok = await device.raw(tl.write(functions.help.GetAppConfig(hash=0)))
    assert ok and isinstance(tl.read(body), types.JsonObject)


async def test_no_hash_is_ever_not_modified_for_zero(server: Server) -> None:
    device, _ = await server.account()
    with pytest.raises(Refused, match="400 STICKERSET_INVALID"):
        await device.call(
            functions.messages.GetStickerSet(stickerset=types.InputStickerSetAnimatedEmoji(), hash=0)
        )
    config = await device.call(functions.help.GetAppConfig(hash=0))
    again = await device.call(functions.help.GetAppConfig(hash=config.hash))
    assert isinstance(again, types.help.AppConfigNotModified)
