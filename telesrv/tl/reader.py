"""Reads objects: straight-line code, written and compiled once for each constructor id on its first use.

A reader finds the constructor by id, whatever layer it is of, and fills the newest layer's class by field
name: a field that its layer lacked gets its default, one whose type changed is converted (`upgrade`). Every
boxed position has a table of the ids that its TL type allows, so a handler never meets an object of a type
that the schema does not promise.

Readers check offsets only where a wrong one would go on unnoticed: struct and indexing raise at the end of
the bytes, and slices that ran over it are found by the one comparison at the end of `read`.

*Spec: Binary Data Serialization*
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from telesrv.tl import defaults, upgrade
from telesrv.tl.errors import LimitExceeded, TLError, TrailingBytes, Truncated, UnknownConstructor
from telesrv.tl.gzip import GZIP_PACKED, inflate
from telesrv.tl.limits import DEFAULT_LIMITS, Budget, Limits
from telesrv.tl.schema import FIXED, Field, Variant, class_place, schema, vector_item
from telesrv.tl.source import Source

VECTOR = 0x1CB5C415
BOOL_TRUE = 0x997275B5
BOOL_FALSE = 0xBC799737

# (bytes, offset after the id, depth left, budget) -> (object, end offset)
Read = Callable[[bytes, int, int, Budget], tuple[Any, int]]

_CODES = {"#": "I", "int": "i", "long": "q", "double": "d", "int128": "16s", "int256": "32s", "Bool": "I"}
ANY, CALL = "Object", "!X"


class Table(dict[int, Read]):
    """The readers that one TL type allows, by constructor id; filled as ids are met."""

    def __init__(self, type_: str) -> None:
        super().__init__()
        self.type = type_

    def __missing__(self, constructor_id: int) -> Read:
        variant = schema().by_id.get(constructor_id)
        read: Read
        if variant is not None and self._allows(variant):
            read = reader(variant)
        elif variant is not None and (convert := upgrade.stand_in(self.type, variant.name)):
            read = _converted(reader(variant), convert)
        elif constructor_id == GZIP_PACKED and self.type in (ANY, CALL):
            read = self._read_gzip_packed
        elif constructor_id == BOOL_TRUE and self.type == ANY:
            read = _read_true
        elif constructor_id == BOOL_FALSE and self.type == ANY:
            read = _read_false
        else:
            raise UnknownConstructor(constructor_id, "" if self.type == ANY else self.type)
        self[constructor_id] = read
        return read

    def _allows(self, variant: Variant) -> bool:
        if self.type == ANY:
            return True
        if self.type == CALL:
            return variant.is_function
        return variant.result == self.type and not variant.is_function

    def _read_gzip_packed(self, b: bytes, o: int, d: int, c: Budget) -> tuple[Any, int]:
        if d <= 0:
            too_deep()
        packed, o = read_string(b, o, c)
        if o > len(b):
            raise Truncated("gzip_packed")
        data = inflate(packed, c.inflated_bytes)
        c.inflated_bytes -= len(data)
        value, end = self[_UINT(data, 0)[0]](data, 4, d - 1, c)
        if end > len(data):
            raise Truncated("gzip_packed")
        if end < len(data):
            raise TrailingBytes("gzip_packed")
        return value, o


def _converted(read: Read, convert: Callable[[Any], Any]) -> Read:
    def converted(b: bytes, o: int, d: int, c: Budget) -> tuple[Any, int]:
        value, end = read(b, o, d, c)
        return convert(value), end

    return converted


_UINT = struct.Struct("<I").unpack_from
_UINT_INT = struct.Struct("<Ii").unpack_from
_tables: dict[str, Table] = {}
_readers: dict[int, Read] = {}


def table(type_: str) -> Table:
    """Returns the one table of a TL type."""
    found = _tables.get(type_)
    if found is None:
        found = _tables[type_] = Table(type_)
    return found


_anything = table(ANY)


def read(data: bytes | bytearray | memoryview, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Returns the boxed object that `data` is, of whatever layer, as an instance of the newest layer's class.

    Bool is a bool. A gzip_packed is inflated. Raises only ProtocolError, whatever the bytes.

    *Spec: Binary Data Serialization*
    """
    b = data if data.__class__ is bytes else bytes(data)
    budget = Budget() if limits is DEFAULT_LIMITS else Budget.of(limits)
    try:
        value, end = _anything[_UINT(b)[0]](b, 4, limits.depth, budget)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise _translated(error, b) from None
    if end != len(b):
        raise _beyond(b, end)
    return value


def read_prefix(
    data: bytes | bytearray | memoryview, offset: int = 0, limits: Limits = DEFAULT_LIMITS
) -> tuple[Any, int]:
    """Returns the boxed object at `offset` and the offset of its end; otherwise as `read`.

    *Spec: Binary Data Serialization*
    """
    return _run(_read_any, data, offset, limits)


def read_result(
    data: bytes | bytearray | memoryview, result_type: str, limits: Limits = DEFAULT_LIMITS
) -> Any:
    """Returns the answer to a method whose RESULT is `result_type`; vectors and Bool included.

    *Spec: Binary Data Serialization*
    """
    b = data if isinstance(data, bytes) else bytes(data)
    value, end = _run(_result_reader(result_type), b, 0, limits)
    if end != len(b):
        raise _beyond(b, end)
    return value


def _run(read: Read, data: bytes | bytearray | memoryview, offset: int, limits: Limits) -> tuple[Any, int]:
    b = data if isinstance(data, bytes) else bytes(data)
    try:
        value, end = read(b, offset, limits.depth, Budget.of(limits))
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise _translated(error, b) from None
    if end > len(b):
        raise _beyond(b, end)
    return value, end


def _translated(error: Exception, b: bytes) -> TLError:
    if isinstance(error, UnicodeDecodeError):
        return TLError(f"a string is not UTF-8: {error.reason}")
    return Truncated(f"the object goes on after {len(b)} bytes")


def _beyond(b: bytes, end: int) -> TLError:
    if end > len(b):
        return Truncated(f"the object goes on after {len(b)} bytes")
    return TrailingBytes(f"{len(b) - end} bytes after the object")


def _read_any(b: bytes, o: int, d: int, c: Budget) -> tuple[Any, int]:
    return _anything[_UINT(b, o)[0]](b, o + 4, d, c)


def _read_true(b: bytes, o: int, d: int, c: Budget) -> tuple[bool, int]:
    return True, o


def _read_false(b: bytes, o: int, d: int, c: Budget) -> tuple[bool, int]:
    return False, o


# -- what the generated code calls ---------------------------------------------------------------------------


def read_string(b: bytes, o: int, c: Budget) -> tuple[bytes, int]:
    """Reads a string of any length; what is missing at the end shows in the offset."""
    n = b[o]
    if n < 254:
        return b[o + 1 : o + 1 + n], o + n + 4 & -4
    if n == 255:
        raise TLError("a string's length cannot begin with 255")
    n = b[o + 1] | b[o + 2] << 8 | b[o + 3] << 16
    if n > c.string_bytes:
        raise LimitExceeded(f"a string of {n} bytes")
    return b[o + 4 : o + 4 + n], o + n + 7 & -4


def bad_vector(b: bytes, count: int, left: int, c: Budget) -> NoReturn:
    """Says what is wrong with a vector's count."""
    if count > c.vector_items or count < 0:
        raise LimitExceeded(f"a vector of {count & 0xFFFFFFFF} items")
    raise Truncated(f"a vector of {count} items in {left} bytes")


def not_vector(constructor_id: int) -> NoReturn:
    raise UnknownConstructor(constructor_id, "Vector")


def not_bool(value: int) -> bool:
    """False for boolFalse, an error for anything else (boolTrue never gets here)."""
    if value != BOOL_FALSE:
        raise UnknownConstructor(value, "Bool")
    return False


def too_deep() -> NoReturn:
    raise LimitExceeded("objects are nested too deeply")


# -- the code writer -----------------------------------------------------------------------------------------


def reader(variant: Variant) -> Read:
    """Returns the reader of what follows a variant's id, compiling it on the first call."""
    found = _readers.get(variant.id)
    if found is None:
        found = _readers[variant.id] = _Source(variant).compile()
    return found


def load_class(variant: Variant) -> type:
    """Returns the generated class of a variant's name."""
    module, name = class_place(variant.kind, variant.name)
    found: type = getattr(import_module("telesrv.tl." + module), name)
    return found


def minimum_size(type_: str) -> int:
    """The fewest bytes that a value of a type takes: every boxed one has an id, every string a length."""
    return FIXED.get(type_, 4)


class _Source(Source):
    """Writes the Python of one variant's reader."""

    def __init__(self, variant: Variant) -> None:
        super().__init__(
            {
                "new": object.__new__,
                "string": read_string,
                "bad_vector": bad_vector,
                "not_vector": not_vector,
                "not_bool": not_bool,
                "too_deep": too_deep,
                "unpack": struct.unpack_from,
                "UINT": _UINT,
                "UINT_INT": _UINT_INT,
            }
        )
        self.variant = variant
        self.run: list[tuple[str, str]] = []  # (struct code, assignment target) not yet unpacked
        self.after: list[str] = []  # lines that need the run's values

    def compile(self) -> Read:
        variant = self.variant
        canonical = schema().canonical(variant)
        kept = {f.name: f for f in canonical.attributes}
        fields = variant.attributes
        hook = upgrade.OBJECTS.get(variant.name)
        if all(f.name in kept for f in fields):
            hook = None
        self.names["C"] = load_class(variant)
        nested = any(self._nests(f.type) for f in fields)
        if nested:
            self.put("if d <= 0: too_deep()", "d -= 1")
        self.put("x = new(C)")
        if hook:
            self.put("g = {}")
        together = self.true_runs(variant, kept)
        for field in variant.fields:
            if field.name in together:
                if names := together[field.name]:
                    self.trues(names)
            elif field.type == "#":
                self.run.append(("I", field.name))
            elif field.name not in kept:
                self.field(field, f"g[{field.name!r}]" if hook else "_", None)
            elif kept[field.name].type != field.type:
                convert = upgrade.conversion(field, kept[field.name])
                self.field(field, f"x.{field.attribute}", convert)
            else:
                self.field(field, f"x.{field.attribute}", None)
        self.flush()
        present = {f.name for f in fields}
        for field in (f for f in canonical.attributes if f.name not in present):
            self.put(f"x.{field.attribute} = {self.default(field)}")
        if hook:
            self.names["hook"] = hook
            self.put("hook(x, g)")
        self.put("return x, o")
        source = "def read(b, o, d, c):\n" + "".join(f"    {line}\n" for line in self.lines)
        code = compile(source, f"<reader of {variant.name}#{variant.id:08x}>", "exec")
        exec(code, self.names)  # noqa: S102 - our own text, made from our own schema
        made: Read = self.names["read"]
        return made

    @staticmethod
    def true_runs(variant: Variant, kept: dict[str, Field]) -> dict[str, list[Field]]:
        """Finds the runs of `true` flags of one word: under the first of a run its fields, under others
        none."""
        runs: dict[str, list[Field]] = {}
        run: list[Field] = []
        for field in variant.fields:
            plain = field.type == "true" and field.name in kept and kept[field.name].type == "true"
            if plain and run and run[0].flags == field.flags:
                run.append(field)
                runs[field.name] = []
            else:
                run = [field] if plain else []
                if plain:
                    runs[field.name] = run
        return runs

    def trues(self, fields: list[Field]) -> None:
        """Sets a run of `true` flags; most often none of them is there, which one comparison tells."""
        self.flush()
        each = [f"x.{f.attribute} = ({f.flags} & {1 << f.bit}) != 0" for f in fields]
        if len(fields) < 4:
            self.put(*each)
            return
        mask = sum({1 << f.bit for f in fields})
        none = " = ".join(f"x.{f.attribute}" for f in fields)
        self.put(
            f"if {fields[0].flags} & {mask}:",
            *("    " + line for line in each),
            "else:",
            f"    {none} = False",
        )

    def default(self, field: Field) -> str:
        """The expression of a field that the variant's layer did not have."""
        if field.optional:
            return "False" if field.type == "true" else "None"
        return self.bind("default", defaults.default(field.type)) + "()"

    def _nests(self, type_: str) -> bool:
        if item := vector_item(type_):
            return self._nests(item[0])
        return type_ not in _CODES and type_ not in ("true", "string", "bytes")

    def field(self, field: Field, target: str, conversion: Callable[[Any], Any] | None) -> None:
        place = f"{self.local()}" if conversion else target
        if field.type == "true":
            self.flush()
            self.put(f"{place} = ({field.flags} & {1 << field.bit}) != 0")
        elif field.optional:
            self.flush()
            outer, self.lines = self.lines, []
            self.value(field.type, place)
            self.flush()
            inner, self.lines = self.lines, outer
            self.put(f"if {field.flags} & {1 << field.bit}:")
            self.put(*("    " + line for line in inner))
            self.put("else:", f"    {place} = None")
        else:
            self.value(field.type, place)
        if conversion:
            self.flush()
            self.put(f"{target} = {self.bind('convert', conversion)}({place})")

    def flush(self) -> None:
        """Unpacks the fixed-width fields gathered so far in one call."""
        if not self.run:
            return
        layout = "<" + "".join(code for code, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        self.names["s" + layout[1:]] = struct.Struct(layout).unpack_from
        self.put(f"{targets}, = s{layout[1:]}(b, o)", f"o += {struct.calcsize(layout)}")
        self.put(*self.after)
        self.run, self.after = [], []

    def value(self, type_: str, target: str) -> None:
        """Writes the reading of one value of a type into a target."""
        if type_ == "Bool":
            value = self.local()
            self.run.append(("I", value))
            self.after.append(f"{target} = {value} == {BOOL_TRUE} or not_bool({value})")
        elif type_ in _CODES:
            self.run.append((_CODES[type_], target))
        elif type_ in ("string", "bytes"):
            self.flush()
            decode = ".decode()" if type_ == "string" else ""
            value = self.local()
            self.put(
                "n = b[o]",
                "if n < 254:",
                f"    {target} = b[o + 1:o + 1 + n]{decode}",
                "    o += n + 4 & -4",
                "else:",
                f"    {value}, o = string(b, o, c)",
                f"    {target} = {value}{decode}",
            )
        elif item := vector_item(type_):
            self.flush()
            self.vector(item[0], item[1], target)
        else:
            self.flush()
            bare = self._bare(type_)
            if bare:
                self.put(f"{target}, o = {self.bind('bare', reader(bare))}(b, o, d, c)")
            else:
                name = self.bind("table", table(type_))
                self.put("u, = UINT(b, o)", f"{target}, o = {name}[u](b, o + 4, d, c)")

    @staticmethod
    def _bare(type_: str) -> Variant | None:
        """The one variant that a bare type (`%T`, or a constructor's own name) stands for."""
        if type_.startswith("%"):
            return schema().types[type_[1:]][-1]
        short = type_.rpartition(".")[2]
        if not short[0].islower() or type_ in schema().types:
            return None
        for kind in ("t", "mt"):
            if variants := schema().by_name.get((kind, type_)):
                return variants[-1]
        return None

    def vector(self, item: str, boxed: bool, target: str) -> None:
        count, items, index = self.local(), self.local(), self.local()
        if boxed:
            self.put(f"u, {count} = UINT_INT(b, o)", "o += 8", f"if u != {VECTOR}: not_vector(u)")
        else:
            self.put(f"{count}, = UINT(b, o)", "o += 4")
        self.put(
            f"if not 0 <= {count} <= c.vector_items or {count} * {minimum_size(item)} > len(b) - o: "
            f"bad_vector(b, {count}, len(b) - o, c)"
        )
        if item in ("int", "long", "double"):
            code = _CODES[item]
            self.put(f"{target} = list(unpack(f'<{{{count}}}{code}', b, o))", f"o += {count} * {FIXED[item]}")
            return
        self.put(f"{items} = []", f"for {index} in range({count}):")
        outer, self.lines = self.lines, []
        value = self.local()
        self.value(item, value)
        self.flush()
        inner, self.lines = self.lines, outer
        self.put(*("    " + line for line in inner), f"    {items}.append({value})", f"{target} = {items}")


_result_readers: dict[str, Read] = {}


def _result_reader(result_type: str) -> Read:
    found = _result_readers.get(result_type)
    if found is None:
        variant = Variant("t", "result", "0", 0, 0, f"value:{result_type}", "")
        source = _Source(variant)
        source.put("if d <= 0: too_deep()")
        source.value("Object" if result_type in ("X", ANY) else result_type, "value")
        source.flush()
        source.put("return value, o")
        text = "def read(b, o, d, c):\n" + "".join(f"    {line}\n" for line in source.lines)
        exec(compile(text, f"<reader of {result_type}>", "exec"), source.names)  # noqa: S102
        found = _result_readers[result_type] = source.names["read"]
    return found
