"""The measurement itself runs, and measures what it says."""

from __future__ import annotations

from loadtest.codec import LAYERS, measure
from telesrv.tl import LAYER


def test_measure() -> None:
    found = measure(repeat=1, number=1)
    expected = [(name, layer) for name in ("message", "update") for layer in LAYERS]
    assert [(m.name, m.layer) for m in found] == expected
    for m in found:
        assert m.size_bytes % 4 == 0
        assert min(m.encode_ns, m.decode_ns) > 0
        assert (m.telethon_encode_ns is not None) == (m.layer == LAYER)
