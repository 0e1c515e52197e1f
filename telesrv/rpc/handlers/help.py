"""What a client asks of the server itself before anything else.

*Spec: help.getConfig; Client configuration*
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telesrv.domain.messages import READ_DATE_KEPT_S
from telesrv.rpc.convert.config import config_to_tl
from telesrv.rpc.convert.countries import countries_to_tl
from telesrv.rpc.registry import handler
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

WEEK_S: Final = 7 * 86_400
APP_CONFIG_HASH: Final = 3
"""Another one for other settings, since clients keep those that they have; never 0, which is what a client
says that has none."""


@handler(functions.help.GetConfig, before_login=True)
async def get_config(ctx: Context, request: functions.help.GetConfig) -> types.Config:
    """Answers where the server is and what its limits are."""
    return config_to_tl(ctx.config.advertise_ip, ctx.config.port, ctx.caller.dc_id, ctx.now())


@handler(functions.help.GetNearestDc, before_login=True)
async def get_nearest_dc(ctx: Context, request: functions.help.GetNearestDc) -> types.NearestDc:
    """Answers that the DC the client is connected to is the nearest."""
    return types.NearestDc(country="", this_dc=ctx.caller.dc_id, nearest_dc=ctx.caller.dc_id)


@handler(functions.help.GetAppConfig, before_login=True)
async def get_app_config(ctx: Context, request: functions.help.GetAppConfig) -> types.help.TypeAppConfig:
    """Answers what clients do not offer by themselves; else the defaults of every client suit."""
    if request.hash == APP_CONFIG_HASH:
        return types.help.AppConfigNotModified()
    return types.help.AppConfig(hash=APP_CONFIG_HASH, config=types.JsonObject(value=_settings()))


@handler(functions.help.GetCountriesList, before_login=True)
async def get_countries_list(
    ctx: Context, request: functions.help.GetCountriesList
) -> types.help.TypeCountriesList:
    """Answers the countries with their calling codes, by English names whatever the language."""
    countries = countries_to_tl()
    if request.hash == countries.hash:
        return types.help.CountriesListNotModified()
    return countries


@handler(functions.help.GetAppUpdate, before_login=True)
async def get_app_update(ctx: Context, request: functions.help.GetAppUpdate) -> types.help.NoAppUpdate:
    """Answers that there is no newer client here."""
    return types.help.NoAppUpdate()


@handler(functions.help.GetInviteText, before_login=True, stub=True)
async def get_invite_text(ctx: Context, request: functions.help.GetInviteText) -> types.help.InviteText:
    """Answers no text."""
    return types.help.InviteText(message="")


@handler(functions.help.GetTermsOfServiceUpdate, before_login=True)
async def get_terms_of_service_update(
    ctx: Context, request: functions.help.GetTermsOfServiceUpdate
) -> types.help.TermsOfServiceUpdateEmpty:
    """Answers that there are no terms to accept, and when to ask again: clients ask at that time."""
    return types.help.TermsOfServiceUpdateEmpty(expires=ctx.now() + WEEK_S)


@handler(functions.help.AcceptTermsOfService, before_login=True)
async def accept_terms_of_service(ctx: Context, request: functions.help.AcceptTermsOfService) -> bool:
    """Takes note of nothing."""
    return True


@handler(functions.help.GetPromoData)
async def get_promo_data(ctx: Context, request: functions.help.GetPromoData) -> types.help.PromoDataEmpty:
    """Answers that nothing is promoted, and when to ask again."""
    return types.help.PromoDataEmpty(expires=ctx.now() + WEEK_S)


@handler(functions.help.HidePromoData)
async def hide_promo_data(ctx: Context, request: functions.help.HidePromoData) -> bool:
    """There is nothing to hide."""
    return True


@handler(functions.help.DismissSuggestion)
async def dismiss_suggestion(ctx: Context, request: functions.help.DismissSuggestion) -> bool:
    """No suggestion was made."""
    return True


@handler(functions.help.SaveAppLog, before_login=True)
async def save_app_log(ctx: Context, request: functions.help.SaveAppLog) -> bool:
    """Drops what clients report of their use."""
    return True


@handler(functions.help.GetDeepLinkInfo, before_login=True)
async def get_deep_link_info(
    ctx: Context, request: functions.help.GetDeepLinkInfo
) -> types.help.DeepLinkInfoEmpty:
    """Answers that the link is none of ours."""
    return types.help.DeepLinkInfoEmpty()


@handler(functions.help.GetRecentMeUrls)
async def get_recent_me_urls(
    ctx: Context, request: functions.help.GetRecentMeUrls
) -> types.help.RecentMeUrls:
    """Answers no link."""
    return types.help.RecentMeUrls(urls=[], chats=[], users=[])


@handler(functions.help.GetPassportConfig, before_login=True, stub=True)
async def get_passport_config(
    ctx: Context, request: functions.help.GetPassportConfig
) -> types.help.PassportConfig:
    """Answers no country: there is no passport."""
    return types.help.PassportConfig(hash=0, countries_langs=types.DataJSON(data="{}"))


@handler(functions.help.GetPremiumPromo, stub=True)
async def get_premium_promo(ctx: Context, request: functions.help.GetPremiumPromo) -> types.help.PremiumPromo:
    """Answers that nothing is sold."""
    return types.help.PremiumPromo(
        status_text="", status_entities=[], video_sections=[], videos=[], period_options=[], users=[]
    )


@handler(functions.help.GetPeerColors, before_login=True, stub=True)
@handler(functions.help.GetPeerProfileColors, before_login=True, stub=True)
async def get_peer_colors(
    ctx: Context, request: functions.help.GetPeerColors | functions.help.GetPeerProfileColors
) -> types.help.PeerColors:
    """Answers no colour beside those that clients have."""
    return types.help.PeerColors(hash=0, colors=[])


@handler(functions.help.GetTimezonesList, before_login=True, stub=True)
async def get_timezones_list(
    ctx: Context, request: functions.help.GetTimezonesList
) -> types.help.TimezonesList:
    """Answers no time zone: only businesses choose one."""
    return types.help.TimezonesList(timezones=[], hash=0)


def _settings() -> list[types.TypeJSONObjectValue]:
    """Returns the settings of clients: there is an archive for chats that strangers begin, and when a message
    was read is told for so long.
    """
    settings: dict[str, types.TypeJSONValue] = {
        "autoarchive_setting_available": types.JsonBool(value=True),
        "pm_read_date_expire_period": types.JsonNumber(value=float(READ_DATE_KEPT_S)),
    }
    return [types.JsonObjectValue(key=key, value=value) for key, value in settings.items()]
