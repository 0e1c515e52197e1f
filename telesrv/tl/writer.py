"""Writes objects for a session's layer: straight-line code, compiled once per class and layer on its first
use.

Every boxed position has, per layer, a table from class to writer. A class that the layer has under that TL
type gets the code of the layer's variant; one that it does not have goes through `downgrade`: another object
in its place, or, in a vector or an optional field, nothing. A class that belongs under another type is a
TypeError: a bug of ours.

*Spec: Binary Data Serialization*
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any, NoReturn

from telesrv.tl import downgrade
from telesrv.tl.base import TLObject
from telesrv.tl.reader import ANY, BOOL_FALSE, BOOL_TRUE, CALL, VECTOR
from telesrv.tl.schema import (
    FUNCTION,
    LAYER,
    SERVICE_FUNCTION,
    SERVICE_TYPE,
    TYPE,
    Field,
    Variant,
    schema,
    vector_item,
)
from telesrv.tl.source import Source

# (object, append): appends the object's bytes, id included, piece by piece.
Append = Callable[[bytes], None]
Write = Callable[[Any, Append], None]

_CODES = {"int": "i", "long": "q", "double": "d", "int128": "16s", "int256": "32s"}
_ZERO = {"int": "0", "long": "0", "double": "0.0", "string": "''", "bytes": "b''", "Bool": "False"}

# The length byte and the padding of every short string.
HEAD = tuple(bytes((n,)) for n in range(254))
TAIL = tuple(bytes(-(n + 1) % 4) for n in range(254))
TRUE = BOOL_TRUE.to_bytes(4, "little")
FALSE = BOOL_FALSE.to_bytes(4, "little")


def supported_layer(layer: int) -> int:
    """Returns the known layer whose schema a session of `layer` gets: the nearest one not above it, else the
    oldest."""
    layers = schema().layers
    return layers[max(bisect_right(layers, layer) - 1, 0)]


def write(value: Any, layer: int = LAYER) -> bytes:
    """Returns the boxed bytes of an object, or of a bool, as `layer` has it.

    Raises TypeError when a value is not of the type that the schema says, or when the layer has no way to say
    it.

    *Spec: Binary Data Serialization*
    """
    return _run(_anything.get(layer) or _anything_of(layer), value)


def write_result(value: Any, result_type: str, layer: int = LAYER) -> bytes:
    """Returns the bytes of an answer to a method whose RESULT is `result_type`; vectors and Bool included.

    Raises TypeError as `write` does.

    *Spec: Binary Data Serialization*
    """
    writers = layer_writers(layer)
    changed = downgrade.RESULTS.get(result_type)
    if changed and not writers.has_type(result_type):
        result_type, value = changed[0], changed[1](value)
    if vector_item(result_type):
        out: list[bytes] = []
        _guard(writers.result(result_type), value, out)
        return b"".join(out)
    return _run(writers[ANY if result_type == "X" else result_type], value)


def _run(table: WriterTable, value: Any) -> bytes:
    out: list[bytes] = []
    try:
        table[value.__class__](value, out.append)
    except (struct.error, AttributeError) as error:
        raise TypeError(f"{value!r:.300}: {error}") from error
    return b"".join(out)


def _guard(write: Write, value: Any, out: list[bytes]) -> None:
    try:
        write(value, out.append)
    except (struct.error, AttributeError) as error:
        raise TypeError(f"{value!r:.300}: {error}") from error


def write_bytes(value: bytes) -> bytes:
    """Returns a TL string: length, content, padding to a multiple of four.

    *Spec: Binary Data Serialization*
    """
    n = len(value)
    if n < 254:
        return HEAD[n] + value + TAIL[n]
    if n >= 1 << 24:
        raise TypeError(f"a string of {n} bytes does not fit TL")
    return b"\xfe" + n.to_bytes(3, "little") + value + bytes(-n % 4)


# -- tables --------------------------------------------------------------------------------------------------


class LayerWriters(dict[str, "WriterTable"]):
    """The tables of one layer, by TL type."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self._results: dict[str, Write] = {}
        self._variants: dict[type, Write] = {}

    def __missing__(self, type_: str) -> WriterTable:
        table = self[type_] = WriterTable(self, type_)
        return table

    def has_type(self, type_: str) -> bool:
        """Whether the layer has any constructor of a type, or of a vector's items."""
        item = vector_item(type_)
        variants = schema().types.get(item[0] if item else type_, ())
        return any(v.in_layer(self.layer) or v.first == 0 for v in variants)

    def result(self, result_type: str) -> Write:
        """Returns the writer of a vector that is an answer by itself."""
        found = self._results.get(result_type)
        if found is None:
            source = _Source(self, f"answer {result_type}")
            source.value(result_type, "x")
            found = self._results[result_type] = source.compile()
        return found

    def variant(self, cls: type[TLObject]) -> Write | None:
        """Returns the writer of a class as this layer has it; None when it has not."""
        found = self._variants.get(cls)
        if found is None:
            variant = find_variant(cls, self.layer)
            if variant is None:
                return None
            found = self._variants[cls] = _write_variant(self, variant)
        return found


class WriterTable(dict[type, Write]):
    """The writers of one TL type in one layer, by class; filled as classes are met."""

    def __init__(self, writers: LayerWriters, type_: str) -> None:
        super().__init__()
        self.writers = writers
        self.type = type_
        self._plain: dict[type, bool] = {}

    def __missing__(self, cls: type) -> Write:
        write: Write | None = None
        if cls is bool and self.type in (ANY, "Bool"):
            write = _write_bool
        elif issubclass(cls, TLObject):
            if self.allows(cls):
                write = self.writers.variant(cls)
            if write is None:
                write = self._substitute(cls)
        if write is None:
            raise TypeError(f"{cls.__name__} where {self.type} is expected")
        self[cls] = write
        return write

    def allows(self, cls: type[TLObject]) -> bool:
        """Whether this layer has the class under this type."""
        variant = find_variant(cls, self.writers.layer)
        if variant is None:
            return False
        if self.type == ANY:
            return True
        return (
            variant.is_function
            if self.type == CALL
            else variant.result == self.type and not variant.is_function
        )

    def _substitute(self, cls: type[TLObject]) -> Write | None:
        """Returns the writer of a class that this layer does not have here; None when it belongs
        elsewhere."""
        layer, newest = self.writers.layer, newest_variant(cls)
        changed = downgrade.RESULTS.get(newest.result)
        if self.type == ANY and changed:
            result_type, value_of = changed

            def write_changed(x: Any, a: Append) -> None:
                a(write_result(value_of(x), result_type, layer))

            return write_changed
        rule = rule_for(cls) or downgrade.REQUIRED_RULES.get(newest.result)
        belongs = self.type in (ANY, newest.result) or (self.type == CALL and newest.is_function)
        if rule is None or not belongs:
            if belongs:
                raise TypeError(f"layer {layer} has no {cls.CONSTRUCTOR_NAME}, and no rule replaces it")
            return None

        def write_other(x: Any, a: Append) -> None:
            other = rule(x)
            if other is x:
                raise TypeError(f"layer {layer} has nothing to say {cls.CONSTRUCTOR_NAME} with")
            self[other.__class__](other, a)

        return write_other

    def filters(self) -> bool:
        """Whether this layer lacks a constructor of this type, or what one of them must be able to say."""
        layer = self.writers.layer
        for v in schema().types.get(self.type, ()):
            ours = v.in_layer(LAYER) or v.name in downgrade.RULES
            if v.kind == TYPE and ours and schema().at(v.kind, v.name, layer) is None:
                return True
            if layer < LAYER and (v.name in downgrade.CONTENT or v.name in downgrade.REWRITES):
                return True
        return False

    def maybe(self, x: Any) -> Any:
        """Returns what the layer shows in place of an object: itself, another, or None for nothing at all."""
        if x is None:
            return None
        cls = x.__class__
        plain = self._plain.get(cls)
        if plain is None:
            name = cls.CONSTRUCTOR_NAME
            special = name in downgrade.CONTENT or name in downgrade.REWRITES
            plain = self._plain[cls] = self.allows(cls) and not special
        if plain:
            return x
        if self.allows(cls):
            if cls.CONSTRUCTOR_NAME in downgrade.REWRITES:
                return downgrade.REWRITES[cls.CONSTRUCTOR_NAME](x) if self.writers.layer < LAYER else x
            content = getattr(x, downgrade.CONTENT[cls.CONSTRUCTOR_NAME])
            return x if find_variant(content.__class__, self.writers.layer) else None
        rule = rule_for(cls)
        other = rule(x) if rule else None
        return other if other is None or self.allows(other.__class__) else None


def rule_for(cls: type[TLObject]) -> downgrade.Rule | None:
    """Returns the rule that replaces a class where a layer does not have it."""
    return downgrade.RULES.get(cls.CONSTRUCTOR_NAME) or downgrade.TYPE_RULES.get(newest_variant(cls).result)


_layers: dict[int, LayerWriters] = {}
_anything: dict[int, WriterTable] = {}


def _anything_of(layer: int) -> WriterTable:
    found = layer_writers(layer)[ANY]
    if layer in _layers:
        _anything[layer] = found
    return found


def layer_writers(layer: int) -> LayerWriters:
    """Returns the one set of tables of a layer; layers without a schema share their neighbour's."""
    found = _layers.get(layer)
    if found is None:
        known = supported_layer(layer)
        found = _layers.get(known)
        if found is None:
            found = _layers[known] = LayerWriters(known)
        if known != layer and len(_layers) < 4096:
            _layers[layer] = found
    return found


def kind_of(cls: type[TLObject]) -> str:
    """Returns the kind of schema entry that a generated class is of."""
    service = cls.__module__ == "telesrv.tl.mt"
    if hasattr(cls, "RESULT"):
        return SERVICE_FUNCTION if service else FUNCTION
    return SERVICE_TYPE if service else TYPE


def newest_variant(cls: type[TLObject]) -> Variant:
    """Returns the variant that a class has the fields of."""
    return schema().by_name[kind_of(cls), cls.CONSTRUCTOR_NAME][-1]


def find_variant(cls: type[TLObject], layer: int) -> Variant | None:
    """Returns the variant that a layer has of a class."""
    return schema().at(kind_of(cls), cls.CONSTRUCTOR_NAME, layer)


def _write_bool(x: bool, a: Append) -> None:
    a(TRUE if x else FALSE)


# -- the code writer -----------------------------------------------------------------------------------------

_code_cache: dict[str, CodeType] = {}


def _write_variant(writers: LayerWriters, variant: Variant) -> Write:
    source = _Source(writers, f"{variant.name}#{variant.id:08x}")
    source.variant(variant)
    return source.compile()


def missing(what: str) -> NoReturn:
    raise TypeError(f"{what} is required")


class _Source(Source):
    """Writes the Python of one writer; `x` is the object, `a` appends bytes."""

    def __init__(self, writers: LayerWriters, name: str) -> None:
        super().__init__(
            {
                "HEAD": HEAD,
                "TAIL": TAIL,
                "TRUE": TRUE,
                "FALSE": FALSE,
                "string": write_bytes,
                "missing": missing,
                "pack": struct.pack,
            }
        )
        self.writers = writers
        self.name = name
        self.run: list[tuple[str, str]] = []  # (struct code, expression) not yet packed

    def compile(self) -> Write:
        self.flush()
        text = "def write(x, a):\n" + "".join(f"    {line}\n" for line in self.lines)
        code = _code_cache.get(text)
        if code is None:
            code = _code_cache[text] = compile(text, f"<writer of {self.name}>", "exec")
        exec(code, self.names)  # noqa: S102 - our own text, made from our own schema
        made: Write = self.names["write"]
        return made

    def variant(self, variant: Variant, boxed: bool = True) -> None:
        """Writes a whole object: its flags first, since they say which fields follow."""
        newest = {f.name: f for f in schema().canonical(variant).attributes}
        values: dict[str, str] = {}
        prepare = downgrade.OBJECTS.get(variant.name)
        if prepare and variant.id != schema().canonical(variant).id:
            self.names["prepare"], self.names["layer"] = prepare, self.writers.layer
            self.put("g = prepare(x, layer)")
        else:
            prepare = None
        shared = Counter((f.flags, f.bit) for f in variant.fields if f.optional)
        for word in (f.name for f in variant.fields if f.type == "#"):
            self.put(f"{word} = 0")
            for field in variant.fields:
                if field.optional and field.flags == word:
                    expression = self.get(field, newest, prepare is not None)
                    if field.type == "true":
                        if expression != "False":
                            self.put(f"if {expression}: {word} |= {1 << field.bit}")
                    elif expression != "None":
                        values[field.name] = value = self.local()
                        self.put(f"{value} = {expression}")
                        if self._replaceable(field.type):
                            maybe = self.bind("maybe", self.writers[field.type].maybe)
                            self.put(f"if {value} is not None: {value} = {maybe}({value})")
                        self.put(f"if {value} is not None: {word} |= {1 << field.bit}")
        if boxed:
            self.run.append(("I", str(variant.id)))
        for field in variant.fields:
            if field.type == "#":
                self.run.append(("I", field.name))
            elif field.type == "true":
                continue
            elif field.optional:
                if shared[field.flags, field.bit] > 1:
                    value = values.get(field.name, "")
                    if not value:
                        values[field.name] = value = self.local()
                        self.put(f"{value} = None")
                    condition = f"if {field.flags} & {1 << field.bit}:"
                    known = field.name in newest and field.type not in _ZERO and not vector_item(field.type)
                    fill = "" if known else f"    if {value} is None: {value} = {self._default(field)}"
                elif field.name in values:
                    value = values[field.name]
                    condition, fill = f"if {value} is not None:", ""
                else:
                    continue
                self.flush()
                outer, self.lines = self.lines, []
                self.value(field.type, value, field)
                self.flush()
                inner, self.lines = self.lines, outer
                self.put(condition, *([fill] if fill else []), *("    " + line for line in inner))
            else:
                self.value(field.type, self.get(field, newest, prepare is not None), field)

    def get(self, field: Field, newest: dict[str, Field], prepared: bool) -> str:
        """The expression of a field of an old or the newest variant, out of the newest class."""
        kept = newest.get(field.name)
        plain = self._plain(field, kept)
        return f"g.get({field.name!r}, {plain})" if prepared and kept is None else plain

    def _plain(self, field: Field, kept: Field | None) -> str:
        if kept is None:
            if field.optional:
                return "False" if field.type == "true" else "None"
            return self._default(field)
        plain = f"x.{kept.attribute}"
        if kept.type != field.type:
            conversion = downgrade.conversion(self.writers.layer, kept, field)
            plain = f"{self.bind('convert', conversion)}({plain})"
        elif kept.optional and not field.optional and kept.type != "true":
            default = self.bind("filled", downgrade.filled(kept.type, self.writers.layer))
            plain = f"{default}({plain})"
        elif field.type in downgrade.REQUIRED_RULES and not field.optional and self._replaceable(field.type):
            maybe = self.bind("maybe", self.writers[field.type].maybe)
            instead = self.bind("instead", downgrade.REQUIRED_RULES[field.type])
            plain = f"({maybe}({plain}) or {instead}({plain}))"
        return plain

    def _default(self, field: Field) -> str:
        if field.type in _ZERO:
            return _ZERO[field.type]
        if vector_item(field.type):
            return "[]"
        return self.bind("filled", downgrade.filled(field.type, self.writers.layer)) + "(None)"

    def _replaceable(self, type_: str) -> bool:
        return type_ in schema().types and self.writers[type_].filters()

    def flush(self) -> None:
        """Packs the fixed-width values gathered so far in one call."""
        if not self.run:
            return
        layout = "<" + "".join(code for code, _ in self.run)
        if all(expression.isdecimal() for _, expression in self.run):
            constant = struct.pack(layout, *(int(expression) for _, expression in self.run))
            self.put(f"a({constant!r})")
        else:
            name = "s" + layout[1:]
            self.names[name] = struct.Struct(layout).pack
            self.put(f"a({name}({', '.join(expression for _, expression in self.run)}))")
        self.run = []

    def value(self, type_: str, expression: str, field: Field | None = None) -> None:
        """Writes the writing of one value of a type."""
        if type_ in _CODES:
            self.run.append((_CODES[type_], expression))
        elif type_ == "Bool":
            self.run.append(("I", f"({BOOL_TRUE} if {expression} else {BOOL_FALSE})"))
        elif type_ in ("string", "bytes"):
            encode = ".encode()" if type_ == "string" else ""
            self.flush()
            self.put(f"s = {expression}{encode}", "n = len(s)")
            self.put("a(HEAD[n] + s + TAIL[n] if n < 254 else string(s))")
        elif item := vector_item(type_):
            self.flush()
            self.vector(item[0], item[1], expression)
        else:
            self.flush()
            bare = self._bare(type_)
            if bare:
                source = _Source(self.writers, f"bare {bare.name}")
                source.variant(bare, boxed=False)
                self.put(f"{self.bind('bare', source.compile())}({expression}, a)")
                return
            if not expression.isidentifier():
                self.put(f"v = {expression}")
                expression = "v"
            self.put(f"{self.bind('table', self.writers[type_])}[{expression}.__class__]({expression}, a)")

    def _bare(self, type_: str) -> Variant | None:
        if type_.startswith("%"):
            return schema().types[type_[1:]][-1]
        short = type_.rpartition(".")[2]
        if not short[0].islower() or type_ in schema().types:
            return None
        layer = self.writers.layer
        return schema().at(TYPE, type_, layer) or schema().at(SERVICE_TYPE, type_, layer)

    def vector(self, item: str, boxed: bool, expression: str) -> None:
        items, index = self.local(), self.local()
        if self._replaceable(item):
            maybe = self.bind("maybe", self.writers[item].maybe)
            self.put(f"{items} = [{index} for {index} in map({maybe}, {expression}) if {index} is not None]")
        else:
            self.put(f"{items} = {expression}")
        head = [("I", str(VECTOR))] if boxed else []
        if item in ("int", "long", "double"):
            code = _CODES[item]
            form = f"'<{'I' if boxed else ''}i%d{code}' % len({items})"
            self.put(f"a(pack({form}, {f'{VECTOR}, ' if boxed else ''}len({items}), *{items}))")
            return
        self.run.extend([*head, ("i", f"len({items})")])
        self.flush()
        outer, self.lines = self.lines, []
        self.value(item, index)
        self.flush()
        inner, self.lines = self.lines, outer
        self.put(f"for {index} in {items}:", *("    " + line for line in inner))
