"""`make countries`: writes the list of countries and their calling codes anew, from the package phonenumbers.

For each region: its name, and for each calling code by which national numbers it is told from the others of
that code, and how its numbers are grouped, X for a digit. Regions that cannot be told from another by their
first digits are left out.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import phonenumbers  # type: ignore[import-not-found]
from phonenumbers import geocoder

FILE: Final = Path(__file__).parents[1] / "telesrv" / "rpc" / "convert" / "countries.json"
KINDS: Final = (phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE)
AREA_CODES: Final = range(200, 1000)
"""What the numbers of code 1 begin with."""
MAX_PREFIX: Final = 5
FILLERS: Final = ("0", "2", "5", "7")


def examples(region: str) -> Iterator[Any]:
    """Yields a mobile and a fixed number of the region, as far as there are any."""
    for kind in KINDS:
        number = phonenumbers.example_number_for_type(region, kind)
        if number is not None:
            yield number


def patterns(region: str) -> list[str]:
    """Returns how its numbers are grouped, the shortest first."""
    found = set()
    for number in examples(region):
        shown = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.INTERNATIONAL)
        groups = re.findall(r"\d+", shown.removeprefix(f"+{number.country_code}"))
        found.add(" ".join("X" * len(group) for group in groups))
    return sorted(found, key=lambda pattern: (len(pattern), pattern))


def matching(leading: str) -> list[str]:
    """Returns the shortest beginnings that the expression of a region's leading digits takes."""
    found: list[str] = []
    for length in range(1, MAX_PREFIX + 1):
        for digits in itertools.product("0123456789", repeat=length):
            prefix = "".join(digits)
            if re.fullmatch(leading, prefix) and not prefix.startswith(tuple(found)):
                found.append(prefix)
    return found


def is_of(code: int, national: str, region: str) -> bool:
    """Tells whether a number is of the region and of no other."""
    return bool(phonenumbers.region_code_for_number(phonenumbers.parse(f"+{code}{national}")) == region)


def told_apart(code: int, region: str) -> list[str]:
    """Returns the beginnings by which the region is told from the others of its code, by trying."""
    if code == 1:
        return [str(area) for area in AREA_CODES if is_of(code, f"{area}5550123", region)]
    found = set()
    for number in examples(region):
        national = phonenumbers.national_significant_number(number)
        for length in range(2, MAX_PREFIX + 1):
            rest = len(national) - length
            if all(is_of(code, national[:length] + filler * rest, region) for filler in FILLERS):
                found.add(national[:length])
                break
    return sorted(found)


def prefixes(code: int, regions: tuple[str, ...], region: str) -> list[str] | None:
    """Returns the beginnings of the region's national numbers; none for the main one of the code, which has
    the rest. None: it cannot be told from another."""
    if region == regions[0]:
        return []
    leading = phonenumbers.PhoneMetadata.metadata_for_region(region).leading_digits
    return (matching(leading) if leading else told_apart(code, region)) or None


def main() -> None:
    """Writes FILE."""
    rows = []
    for code, regions in phonenumbers.COUNTRY_CODE_TO_REGION_CODE.items():
        for region in regions:
            number = phonenumbers.example_number(region) if len(region) == 2 else None
            name = geocoder.country_name_for_number(number, "en") if number is not None else ""
            begins = prefixes(code, regions, region) if name else None
            if begins is not None:
                rows.append([region, name, str(code), begins, patterns(region)])
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in sorted(rows))
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(rows)} countries of phonenumbers {phonenumbers.__version__}")


main()
