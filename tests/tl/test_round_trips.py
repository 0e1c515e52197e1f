"""Every constructor of every layer: written, read back, and written again to the same bytes."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesrv.tl import LAYER, read, write
from telesrv.tl.schema import Variant, schema
from tests.tl.values import build

NAMES = sorted(schema().by_name)


def check(variant: Variant, layer: int, random: Random, fill: float) -> None:
    value = build(variant, random, layer, fill=fill)
    data = write(value, layer)
    back = read(data)
    assert type(back) is type(value)
    assert write(back, layer) == data
    assert read(write(back, layer)) == back
    if layer == LAYER:
        assert back == value


@pytest.mark.parametrize("layer", [152, 158, 165, 192, 204, 214, 229])
@pytest.mark.parametrize("fill", [0.0, 1.0])
def test_every_constructor(layer: int, fill: float) -> None:
    for key in NAMES:
        variant = schema().at(*key, layer)
        if variant is not None and variant.in_layer(layer):
            check(variant, layer, Random(f"{key}{layer}"), fill)


@given(
    st.sampled_from(NAMES),
    st.sampled_from(schema().layers),
    st.integers(0, 1 << 32),
    st.floats(0, 1),
)
def test_any_constructor_of_any_layer(key: tuple[str, str], layer: int, seed: int, fill: float) -> None:
    variant = schema().at(*key, layer)
    if variant is not None:
        check(variant, layer, Random(seed), fill)
