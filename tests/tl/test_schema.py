"""The facts are what they claim, and the generated code is what the facts say."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from telesrv.tl import conversions, defaults
from telesrv.tl.schema import LAYER, MIN_LAYER, schema, vector_item
from telesrv.tl.writer import supported_layer
from tools.facts.definition import NOT_THEIR_CRC32, Definition
from tools.gen.emit import modules

TL = Path(__file__).parents[2] / "telesrv" / "tl"

# Ids as stock Telegram Desktop 4.6.5, 5.7.2 and 6.1.2 have them.
DESKTOP = {
    152: {
        "user": 0x8F97C628,
        "message": 0x38116EE0,
        "messageService": 0x2B085862,
        "updateNewMessage": 0x1F2B0AFD,
        "userFull": 0xF8D32AED,
        "users.userFull": 0x3B6D152E,
        "messages.dialogs": 0x15BA6C40,
        "messages.messagesSlice": 0x3A54685E,
        "dialog": 0xD58A08C6,
        "config": 0x232566AC,
        "auth.sentCode": 0x5E002502,
        "auth.authorization": 0x2EA2C0D4,
        "peerSettings": 0xA518110D,
        "peerNotifySettings": 0xA83B0426,
        "dialogFilter": 0x7438F7E8,
        "updateShortSentMessage": 0x9015E101,
        "updateShort": 0x78D4DEC1,
        "updates": 0x74AE4240,
        "document": 0x8FD4C4D8,
        "photo": 0xFB197A65,
        "messageReplyHeader": 0xA6D57763,
        "messageFwdHeader": 0x5F777DCE,
        "documentAttributeVideo": 0x0EF02CE6,
        "draftMessage": 0xFD8E711F,
        "webPage": 0xE89C45B2,
        "messages.sendMessage": 0x1CC20387,
        "messages.forwardMessages": 0xC661BBC4,
        "messages.search": 0xA0FDA762,
        "account.registerDevice": 0xEC86017A,
        "messages.getDialogFilters": 0xF19ED96D,
    },
    192: {
        "user": 0x83314FCA,
        "message": 0x94345242,
        "messageService": 0x2B085862,
        "updateNewMessage": 0x1F2B0AFD,
        "userFull": 0x1F58E369,
        "users.userFull": 0x3B6D152E,
        "messages.dialogs": 0x15BA6C40,
        "messages.messagesSlice": 0x3A54685E,
        "dialog": 0xD58A08C6,
        "config": 0xCC1A241E,
        "auth.sentCode": 0x5E002502,
        "auth.authorization": 0x2EA2C0D4,
        "peerSettings": 0xACD66C5E,
        "peerNotifySettings": 0x99622C0C,
        "dialogFilter": 0x5FB5523B,
        "updateShortSentMessage": 0x9015E101,
        "updateShort": 0x78D4DEC1,
        "updates": 0x74AE4240,
        "document": 0x8FD4C4D8,
        "photo": 0xFB197A65,
        "messageReplyHeader": 0xAFBC09DB,
        "messageFwdHeader": 0x4E4DF4BB,
        "documentAttributeVideo": 0x43C57C48,
        "draftMessage": 0x2D65321F,
        "webPage": 0xE89C45B2,
        "messages.sendMessage": 0x983F9745,
        "messages.forwardMessages": 0xD5039208,
        "messages.search": 0x29EE847A,
        "account.registerDevice": 0xEC86017A,
        "messages.getDialogFilters": 0xEFD48C89,
    },
    214: {
        "user": 0x020B1422,
        "message": 0x9815CEC8,
        "messageService": 0x7A800E0A,
        "updateNewMessage": 0x1F2B0AFD,
        "userFull": 0xC577B5AD,
        "users.userFull": 0x3B6D152E,
        "messages.dialogs": 0x15BA6C40,
        "messages.messagesSlice": 0x762B263D,
        "dialog": 0xD58A08C6,
        "config": 0xCC1A241E,
        "auth.sentCode": 0x5E002502,
        "auth.authorization": 0x2EA2C0D4,
        "peerSettings": 0xF47741F7,
        "peerNotifySettings": 0x99622C0C,
        "dialogFilter": 0xAA472651,
        "updateShortSentMessage": 0x9015E101,
        "updateShort": 0x78D4DEC1,
        "updates": 0x74AE4240,
        "document": 0x8FD4C4D8,
        "photo": 0xFB197A65,
        "messageReplyHeader": 0x6917560B,
        "messageFwdHeader": 0x4E4DF4BB,
        "documentAttributeVideo": 0x43C57C48,
        "draftMessage": 0x96EAA5EB,
        "webPage": 0xE89C45B2,
        "messages.sendMessage": 0xFE05DC9A,
        "messages.forwardMessages": 0x978928CA,
        "messages.search": 0x29EE847A,
        "account.registerDevice": 0xEC86017A,
        "messages.getDialogFilters": 0xEFD48C89,
    },
}


def test_layers() -> None:
    layers = schema().layers
    assert layers == sorted(layers)
    assert (layers[0], layers[-1]) == (MIN_LAYER, LAYER)
    assert {152, 158, 192, 193, 196, 200, 214} <= set(layers)
    assert supported_layer(LAYER) == LAYER


def test_every_id_is_its_crc32() -> None:
    exceptions = set()
    for variant in schema().by_id.values():
        if variant.kind not in ("t", "f"):
            continue
        definition = Definition(variant.kind, variant.name, variant.id, variant.field_text, variant.result)
        if definition.crc32() != variant.id:
            exceptions.add(variant.id)
    assert exceptions == NOT_THEIR_CRC32


def test_one_variant_in_a_layer() -> None:
    for variants in schema().by_name.values():
        for earlier, later in pairwise(variants):
            assert earlier.last < later.first


@pytest.mark.parametrize("layer", DESKTOP)
def test_ids_of_telegram_desktop(layer: int) -> None:
    for name, id_ in DESKTOP[layer].items():
        found = schema().at("t", name, layer) or schema().at("f", name, layer)
        assert found is not None
        assert hex(found.id) == hex(id_), name


def test_every_changed_type_has_a_conversion() -> None:
    for variants in schema().by_name.values():
        newest = {f.name: f for f in variants[-1].attributes}
        for variant in variants[:-1]:
            for old in variant.attributes:
                new = newest.get(old.name)
                if new is not None and new.type != old.type:
                    assert callable(conversions.up(old, new))
                    assert callable(conversions.down(new, old, variant.first))


def test_every_required_field_has_a_default() -> None:
    for variants in schema().by_name.values():
        if not variants[-1].in_layer(LAYER):
            continue
        present = {f.name for f in variants[0].attributes}
        for field in variants[-1].attributes:
            if field.name not in present and not field.optional and not vector_item(field.type):
                assert defaults.default(field.type)() is not None, (variants[-1], field)


def test_generated_modules_are_current() -> None:
    for name, text in modules(schema()).items():
        assert (TL / name).read_text() == text, name


def test_import_loads_nothing() -> None:
    code = "import sys, telesrv.tl; print([m for m in sys.modules if m.startswith('telesrv.tl.')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
