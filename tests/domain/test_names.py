"""Phone numbers and usernames: what is one, and when two are the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesrv.domain.contacts import action_bar
from telesrv.domain.phones import maybe_phone
from telesrv.domain.usernames import RESERVED, is_reserved_username, is_valid_username, username_key


@pytest.mark.parametrize(
    "text",
    [
        "15550109999",
        "+15550109999",
        "+1 (555) 010-9999",
        "0015550109999",
        " 1.555.010.9999 ",
        "+1\u00a0555 010\u20139999",
        "+1 (0)555 010 9999",
        "+1(0) 555 0109999",
    ],
)
def test_one_number_however_it_is_written(text: str) -> None:
    assert maybe_phone(text) == "15550109999"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "00",
        "1234",
        "1" * 16,
        "0155501099",
        "+0015550109999",
        "++15550109999",
        "1555x109999",
        "\u0661" * 8,
        "1555010\0999",
        "1" + " " * 70 + "5550109",
    ],
)
def test_what_is_no_number(text: str) -> None:
    assert maybe_phone(text) is None


@given(st.text(max_size=40))
def test_a_number_is_digits_and_stays_itself(text: str) -> None:
    phone = maybe_phone(text)
    assert phone is None or (phone.isascii() and phone.isdigit() and maybe_phone("+" + phone) == phone)


@pytest.mark.parametrize("name", ["annie", "Annie5", "a_b_c", "a" * 32])
def test_good_usernames(name: str) -> None:
    assert is_valid_username(name)


@pytest.mark.parametrize(
    "name",
    ["", "anni", "a" * 33, "5annie", "_annie", "annie_", "an__nie", "ann ie", "änniee", "annie\n", "@annie"],
)
def test_bad_usernames(name: str) -> None:
    assert not is_valid_username(name)


@pytest.mark.parametrize(
    "name",
    [
        *sorted(RESERVED),
        "Telegram",
        "telegram_support",
        "TelegramSupport",
        "support24",
        "te_le_gram",
        "@ADMIN_1",
    ],
)
def test_names_of_the_service_are_reserved(name: str) -> None:
    assert is_reserved_username(name)


@pytest.mark.parametrize("name", ["annie", "admiral", "supporter_of_ada", "telegramma", "sysadmin", "12345"])
def test_names_that_only_look_like_it_are_not(name: str) -> None:
    assert not is_reserved_username(name)


def test_a_username_is_one_name_in_any_case() -> None:
    assert username_key("@AnNie") == username_key("annie") == "annie"


def test_the_action_bar_offers_what_is_not_done_yet() -> None:
    def offered(*, listed: bool, phone_shared: bool, blocked: bool) -> set[str]:
        bar = action_bar(listed=listed, phone_shared=phone_shared, blocked=blocked)
        return {name for name, shown in bar.items() if shown}

    assert offered(listed=False, phone_shared=False, blocked=False) == {"add_contact", "block_contact"}
    assert offered(listed=True, phone_shared=False, blocked=False) == {"share_contact"}
    assert offered(listed=True, phone_shared=True, blocked=False) == set()
    assert offered(listed=False, phone_shared=True, blocked=True) == set()
