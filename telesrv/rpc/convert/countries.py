"""Countries, their calling codes, and how their numbers are written.

The list is data, made by `make countries`; a client completes and groups the number that a user types by it.

*Spec: help.getCountriesList*
"""

from __future__ import annotations

import json
import zlib
from functools import cache
from importlib.resources import files

from telesrv.tl import types


@cache
def countries_to_tl() -> types.help.CountriesList:
    """Returns the list with its hash, which is never 0; the names are English."""
    data = files("telesrv.rpc.convert").joinpath("countries.json").read_bytes()
    by_region: dict[str, types.help.Country] = {}
    for region, name, code, prefixes, patterns in json.loads(data):
        country = by_region.setdefault(
            region, types.help.Country(iso2=region, default_name=name, country_codes=[])
        )
        country.country_codes.append(
            types.help.CountryCode(country_code=code, prefixes=prefixes or None, patterns=patterns or None)
        )
    hash_ = zlib.crc32(data) & 0x7FFF_FFFF or 1
    return types.help.CountriesList(countries=list(by_region.values()), hash=hash_)
