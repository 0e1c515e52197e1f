"""The list of countries by which clients write phone numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from telesrv import tl
from telesrv.domain.phones import MAX_DIGITS, maybe_phone
from telesrv.rpc.convert.countries import countries_to_tl
from telesrv.tl import functions, types
from tests.rpc.devices import Server, serving


@pytest.fixture
async def server(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Server]:
    async with serving(postgres_dsn, redis_url, redis_prefix) as server:
        yield server


def countries() -> dict[str, types.help.Country]:
    return {country.iso2: country for country in countries_to_tl().countries}


async def test_it_is_answered_before_login_and_once(server: Server) -> None:
    device = await server.device()
    ask = functions.help.GetCountriesList
    known = await device.call(ask(lang_code="en", hash=0))
    assert known == countries_to_tl()
    assert len(known.countries) > 200
    again = await device.call(ask(lang_code="en", hash=known.hash))
    assert isinstance(again, types.help.CountriesListNotModified)
    other = await device.call(ask(lang_code="en", hash=known.hash ^ 1))
    assert other == known


@pytest.mark.parametrize("layer", [tl.LAYER, 152])
def test_it_can_be_read_in_every_layer(layer: int) -> None:
    assert tl.read(tl.write(countries_to_tl(), layer)) == countries_to_tl()


def test_every_country_has_a_name_a_code_and_patterns_of_possible_numbers() -> None:
    for region, country in countries().items():
        assert len(region) == 2 and region.isupper() and country.default_name
        assert country.country_codes
        for code in country.country_codes:
            assert maybe_phone(code.country_code + "5550109"), region
            assert code.patterns, region
            for pattern in code.patterns:
                digits = code.country_code + pattern.replace(" ", "").replace("X", "5")
                assert digits.isdigit() and len(digits) <= MAX_DIGITS, region
                assert set(pattern) <= {"X", " "}


def test_of_those_that_share_a_code_one_has_the_rest_and_none_is_taken_for_another() -> None:
    rest: Counter[str] = Counter()
    prefixes: dict[str, list[str]] = {}
    for country in countries().values():
        for code in country.country_codes:
            rest[code.country_code] += code.prefixes is None
            prefixes.setdefault(code.country_code, []).extend(code.prefixes or ())
    assert set(rest.values()) == {1}
    for code, begins in prefixes.items():
        for one in begins:
            assert [other for other in begins if other.startswith(one)] == [one], code


@pytest.mark.parametrize(
    ("region", "name", "code", "prefix", "pattern"),
    [
        ("US", "United States", "1", None, "XXX XXX XXXX"),
        ("CA", "Canada", "1", "416", "XXX XXX XXXX"),
        ("GB", "United Kingdom", "44", None, "XXXX XXXXXX"),
        ("RU", "Russia", "7", None, "XXX XXX XX XX"),
        ("KZ", "Kazakhstan", "7", "7", "XXX XXX XXXX"),
        ("UA", "Ukraine", "380", None, "XX XXX XXXX"),
        ("CN", "China", "86", None, "XXX XXXX XXXX"),
    ],
)
def test_some_that_everybody_knows(
    region: str, name: str, code: str, prefix: str | None, pattern: str
) -> None:
    country = countries()[region]
    [known] = country.country_codes
    assert (country.default_name, known.country_code) == (name, code)
    assert prefix in (known.prefixes or [None])
    assert pattern in known.patterns
