"""Language packs: there are none, clients speak the languages they come with.

*Spec: Localization*
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telesrv.rpc.errors import bad_request
from telesrv.rpc.registry import handler
from telesrv.tl import functions, types

if TYPE_CHECKING:
    from telesrv.rpc.context import Context

MAX_LANG_CODE: Final = 64
MAX_KEYS: Final = 10_000
VERSION: Final = 1


def _lang_code(text: str) -> str:
    if len(text) > MAX_LANG_CODE:
        raise bad_request("LANG_CODE_NOT_SUPPORTED")
    return text


@handler(functions.langpack.GetLangPack, before_login=True, stub=True)
async def get_lang_pack(ctx: Context, request: functions.langpack.GetLangPack) -> types.LangPackDifference:
    """Answers an empty pack."""
    return types.LangPackDifference(
        lang_code=_lang_code(request.lang_code), from_version=0, version=VERSION, strings=[]
    )


@handler(functions.langpack.GetDifference, before_login=True, stub=True)
async def get_difference(ctx: Context, request: functions.langpack.GetDifference) -> types.LangPackDifference:
    """Answers that nothing changed."""
    version = max(request.from_version, VERSION)
    return types.LangPackDifference(
        lang_code=_lang_code(request.lang_code),
        from_version=request.from_version,
        version=version,
        strings=[],
    )


@handler(functions.langpack.GetStrings, before_login=True, stub=True)
async def get_strings(ctx: Context, request: functions.langpack.GetStrings) -> list[types.TypeLangPackString]:
    """Answers that the pack has none of the strings."""
    return [types.LangPackStringDeleted(key=key) for key in request.keys[:MAX_KEYS]]


@handler(functions.langpack.GetLanguages, before_login=True, stub=True)
async def get_languages(
    ctx: Context, request: functions.langpack.GetLanguages
) -> list[types.LangPackLanguage]:
    """Answers the one language that every client has."""
    return [_english()]


@handler(functions.langpack.GetLanguage, before_login=True, stub=True)
async def get_language(ctx: Context, request: functions.langpack.GetLanguage) -> types.LangPackLanguage:
    """Answers the one language that every client has, and no other."""
    if request.lang_code != "en":
        raise bad_request("LANG_CODE_NOT_SUPPORTED")
    return _english()


def _english() -> types.LangPackLanguage:
    return types.LangPackLanguage(
        official=True,
        name="English",
        native_name="English",
        lang_code="en",
        plural_code="en",
        strings_count=0,
        translated_count=0,
        translations_url="",
    )
