"""Makes straight-line codecs from declarations: one Python module per message.

For every message there is one class per struct, with the fields of all versions, and for every
version a `decode` and an `encode` function in which each field is a line or two: no field table
is walked at run time. Runs of fixed-width fields become one precompiled `Struct`. Versions with
the same encoding share their functions.

Nested structs are written inline, so a variable name carries the depth: `m` is the message,
`m1` an element of an array in it. `p` is the position, `n` a length, `b` the buffer or bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.wire.declaration import Api, Field, Message, Struct

FIXED = {
    "bool": ("?", 1), "int8": ("b", 1), "int16": ("h", 2), "uint16": ("H", 2), "int32": ("i", 4),
    "uint32": ("I", 4), "int64": ("q", 8), "float64": ("d", 8), "uuid": ("16s", 16),
}  # fmt: skip
LENGTH_SIZES = {"": 0, "B": 1, "h": 2, "i": 4}
ZEROS = {"bool": "False", "float64": "0.0", "uuid": "ZERO_UUID", "string": '""', "bytes": 'b""'}
TYPES = {
    "bool": "bool", "float64": "float", "uuid": "bytes", "string": "str", "bytes": "bytes",
    "records": "Records",
}  # fmt: skip


class _Source:
    """Lines of Python, and the precompiled Structs they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = 0
        self.structs: dict[str, str] = {}
        self.arrays: set[str] = set()

    def __call__(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def struct(self, form: str) -> str:
        return self.structs.setdefault(form, f"S{len(self.structs)}")


def _all_structs(fields: Iterable[Field]) -> list[Struct]:
    """The structs below `fields`, innermost first, each once."""
    found: dict[str, Struct] = {}
    for each in fields:
        if each.struct is not None:
            for struct in _all_structs(each.struct.fields):
                found.setdefault(struct.name, struct)
            found.setdefault(each.struct.name, each.struct)
    return list(found.values())


def _is_shared_default(field: Field) -> bool:
    """Whether the default is a struct object of the module that all messages share."""
    return (
        field.is_struct and not field.is_array and field.tag is not None and not field.has_default
    )


def _default(field: Field) -> str:
    """The default of a field as an expression."""
    if field.has_default:
        return repr(field.default)
    if field.is_array:
        return "[]"
    if field.is_struct:
        if _is_shared_default(field):
            return f"DEFAULT_{field.type}"
        return f"{field.type}()"
    if field.type == "records":
        return "None"
    return ZEROS.get(field.type, "0")


def _annotation(field: Field) -> str:
    base = field.type if field.is_struct else TYPES.get(field.type, "int")
    text = f"list[{base}]" if field.is_array else base
    return f"{text} | None" if field.nullable or field.type == "records" else text


def _class(out: _Source, name: str, fields: list[Field], base: str) -> None:
    out(f"class {name}({base}):")
    out.indent += 1
    out(f"__slots__ = {tuple(f.name for f in fields)!r}")
    arguments, body = [], []
    for f in fields:
        default = _default(f)
        mutable = default == "[]" or default.endswith("()")
        arguments.append(f"{f.name}: {_annotation(f)} = {'UNSET' if mutable else default}")
        value = f"{default} if {f.name} is UNSET else {f.name}" if mutable else f.name
        body.append(f"self.{f.name} = {value}")
    out(f"def __init__(self{', *, ' if arguments else ''}{', '.join(arguments)}) -> None:")
    out.indent += 1
    for line in body or ["pass"]:
        out(line)
    out.indent -= 2
    for f in fields:
        if _is_shared_default(f) and f"DEFAULT_{f.type} =" not in "\n".join(out.lines):
            raise AssertionError(f"{f.type} must be declared before it is a default")


def _element_size_min(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes that one element of an array takes."""
    if not field.is_struct:
        if field.type in FIXED:
            return FIXED[field.type][1]
        return 1 if flexible else (2 if field.type == "string" else 4)
    assert field.struct is not None
    size = 1 if flexible else 0
    for each in field.struct.fields:
        if version not in each.versions or version in each.tagged:
            continue
        if each.is_array or each.type not in FIXED:
            size += 1 if each.is_struct and not each.is_array else (1 if flexible else 2)
        else:
            size += FIXED[each.type][1]
    return max(size, 1)


class _Codec:
    """Writes the codec of one message in one version."""

    def __init__(self, out: _Source, message: Message, version: int) -> None:
        self._out = out
        self._version = version
        self._message_flexible = version in message.flexible
        self._depth = 0

    def _flexible(self, field: Field) -> bool:
        return self._message_flexible and not field.inflexible

    def _split(self, fields: list[Field]) -> tuple[list[Field], list[Field], list[Field]]:
        """Fields of this version in their place, tagged ones by tag, and absent ones."""
        here = [f for f in fields if self._version in f.versions]
        tagged = [f for f in here if self._message_flexible and self._version in f.tagged]
        tagged.sort(key=lambda f: f.tag or 0)
        placed = [f for f in here if f not in tagged]
        absent = [f for f in fields if self._version not in f.versions]
        return placed, tagged, absent

    def _nullable(self, field: Field) -> bool:
        return self._version in field.nullable

    # -- decoding ---------------------------------------------------------------------------

    def decode_struct(self, target: str, fields: list[Field]) -> None:
        out = self._out
        placed, tagged, absent = self._split(fields)
        for f in absent + tagged:
            out(f"{target}.{f.name} = {_default(f)}")
        run: list[Field] = []
        for f in placed:
            if f.type in FIXED and not f.is_array:
                run.append(f)
                continue
            if f.is_struct and not f.is_array:
                self._decode_run(target, run)
                run = []
            self._decode_field(target, f, run)
            run = []
        if not self._message_flexible:
            self._decode_run(target, run)
            return
        self._decode_run(target, run, then="B")
        if not tagged:
            out("if n: p = skip_tagged_fields(b, p, n)")
            return
        self._decode_tagged(target, tagged)

    def _decode_tagged(self, target: str, tagged: list[Field]) -> None:
        out = self._out
        end, tag, each = f"e{self._depth}", f"t{self._depth}", f"_{self._depth}"
        out("if n:")
        out.indent += 1
        out("if n > 127: n, p = read_uvarint_tail(b, p, n)")
        out("check_tagged_count(n)")
        out(f"for {each} in range(n):")
        out.indent += 1
        out(f"{tag}, p = read_uvarint(b, p)")
        out("n, p = read_uvarint(b, p)")
        out(f"{end} = p + n")
        for i, f in enumerate(tagged):
            out(f"{'el' if i else ''}if {tag} == {f.tag}:")
            out.indent += 1
            self._depth += 1
            if f.type in FIXED and not f.is_array:
                self._decode_run(target, [f])
            else:
                self._decode_field(target, f, [], tagged=True)
            self._depth -= 1
            out(f"if p != {end}: raise MalformedMessage('tagged field {f.name} of a wrong size')")
            out.indent -= 1
        out("else:")
        out(f"    p = {end}")
        out(f"if {end} > len(b): raise MalformedMessage('tagged field past the end')")
        out.indent -= 2

    def _decode_run(self, target: str, run: list[Field], then: str = "") -> None:
        """Reads fixed-width fields, and with them a length or count into `n` (its letter)."""
        if not run and then in {"", "B"}:
            if then:
                self._out("n = b[p]; p += 1")
            return
        form = ">" + "".join(FIXED[f.type][0] for f in run) + then
        size = sum(FIXED[f.type][1] for f in run) + LENGTH_SIZES[then]
        names = [f"{target}.{f.name}" for f in run] + (["n"] if then else [])
        comma = "," if len(names) == 1 else ""
        unpack = f"{self._out.struct(form)}_unpack(b, p); p += {size}"
        self._out(f"{', '.join(names)}{comma} = {unpack}")

    def _decode_length(self, field: Field, letter: str, target: str, run: list[Field]) -> None:
        """Leaves the length in `n`; -1 stands for null. Reads the `run` before it as well."""
        if not self._flexible(field):
            self._decode_run(target, run, then=letter)
            return
        self._decode_run(target, run, then="B")
        self._out("if n > 127: n, p = read_uvarint_tail(b, p, n)")
        self._out("n -= 1")

    def _decode_null(self, target: str, field: Field) -> None:
        """Opens a branch for lengths of null; the caller goes on in an `else`."""
        if self._nullable(field):
            self._out(f"if n < 0: {target}.{field.name} = None")
        else:
            self._out(f"if n < 0: raise null_field({field.name!r})")
        self._out("else:")

    def _decode_field(
        self, target: str, field: Field, run: list[Field], tagged: bool = False
    ) -> None:
        out = self._out
        if field.is_array:
            self._decode_array(target, field, run)
        elif field.is_struct:
            self._decode_nested(target, field, tagged)
        else:
            self._decode_length(field, "h" if field.type == "string" else "i", target, run)
            self._decode_null(target, field)
            view = "b[p:p + n]"
            value = {"string": f"str({view}, 'utf-8', 'replace')", "bytes": f"bytes({view})"}
            out(f"    {target}.{field.name} = {value.get(field.type, view)}; p += n")

    def _decode_nested(self, target: str, field: Field, tagged: bool) -> None:
        out = self._out
        assert field.struct is not None
        if self._nullable(field):
            if tagged:
                out("n, p = read_uvarint(b, p)")
                out(f"if n == 0: {target}.{field.name} = None")
            else:
                out("n, = int8_unpack(b, p); p += 1")
                out(f"if n < 0: {target}.{field.name} = None")
            out("else:")
            out.indent += 1
        self._depth += 1
        name = f"m{self._depth}"
        out(f"{target}.{field.name} = {name} = new({field.type})")
        self.decode_struct(name, field.struct.fields)
        self._depth -= 1
        if self._nullable(field):
            out.indent -= 1

    def _decode_array(self, target: str, field: Field, run: list[Field]) -> None:
        out = self._out
        flexible = self._flexible(field)
        self._decode_length(field, "i", target, run)
        self._decode_null(target, field)
        out.indent += 1
        if field.type in FIXED and field.type != "uuid":
            self._decode_numbers(f"{target}.{field.name}", *FIXED[field.type])
            out.indent -= 1
            return
        out(f"check_count(n, {_element_size_min(field, self._version, flexible)}, b, p)")
        if field.type == "uuid":
            elements = "[bytes(b[i:i + 16]) for i in range(p, p + 16 * n, 16)]"
            out(f"{target}.{field.name} = {elements}; p += 16 * n")
        else:
            self._depth += 1
            name, items, each = f"m{self._depth}", f"a{self._depth}", f"_{self._depth}"
            out(f"{target}.{field.name} = {items} = []")
            out(f"for {each} in range(n):")
            out.indent += 1
            if field.struct is not None:
                out(f"{name} = new({field.type})")
                self.decode_struct(name, field.struct.fields)
                out(f"{items}.append({name})")
            else:
                short = field.type == "string"
                self._decode_length(field, "h" if short else "i", target, [])
                out(f"if n < 0: raise null_field({field.name!r})")
                view = "b[p:p + n]"
                value = f"str({view}, 'utf-8', 'replace')" if short else f"bytes({view})"
                out(f"{items}.append({value}); p += n")
            out.indent -= 1
            self._depth -= 1
        out.indent -= 1

    def _decode_numbers(self, target: str, letter: str, size: int) -> None:
        """Short arrays have a Struct ready, which needs no check: it reads what is there."""
        out = self._out
        out.arrays.add(letter)
        out(f"if n < SHORT_ARRAY: {target} = list({letter}_unpack[n](b, p))")
        out("else:")
        out(f"    check_count(n, {size}, b, p)")
        out(f"    {target} = list(_Struct(f'>{{n}}{letter}').unpack_from(b, p))")
        out(f"p += {size} * n")

    # -- encoding ---------------------------------------------------------------------------

    def encode_struct(self, source: str, fields: list[Field]) -> None:
        out = self._out
        placed, tagged, _ = self._split(fields)
        end = self._message_flexible and not tagged  # a lone zero byte ends the struct
        run: list[Field] = []
        for f in placed:
            if f.type in FIXED and not f.is_array:
                run.append(f)
                continue
            self._encode_run(source, run, pad=False)
            run = []
            self._encode_field(source, f)
        self._encode_run(source, run, pad=end and bool(run))
        if end and not run:
            out("append(ZERO)")
        elif tagged:
            self._encode_tagged(source, tagged)

    def _encode_run(self, source: str, run: list[Field], pad: bool) -> None:
        if not run:
            return
        form = ">" + "".join(FIXED[f.type][0] for f in run) + ("x" if pad else "")
        names = ", ".join(f"{source}.{f.name}" for f in run)
        self._out(f"append({self._out.struct(form)}_pack({names}))")

    def _encode_length(self, field: Field, form: str, length: str) -> None:
        out = self._out
        if self._flexible(field):
            out(f"n = {length} + 1")
            out("append(UVARINTS[n] if n < 128 else write_uvarint(n))")
        else:
            out(f"append({out.struct(form)}_pack({length}))")

    def _encode_null(self, field: Field, value: str, form: str) -> None:
        """A branch for null, or the refusal of it; the caller goes on in an `else`."""
        out = self._out
        if self._nullable(field):
            null = "ZERO" if self._flexible(field) else f"{out.struct(form)}_pack(-1)"
            out(f"if {value} is None: append({null})")
        else:
            out(f"if {value} is None: raise UnsupportedField('{field.name} must not be null')")
        out("else:")

    def _encode_field(self, source: str, field: Field, tagged: bool = False) -> None:
        out = self._out
        value = f"{source}.{field.name}"
        if field.is_struct and not field.is_array:
            self._encode_nested(value, field, tagged)
            return
        form = ">h" if field.type == "string" and not field.is_array else ">i"
        check = self._nullable(field) or field.nullable or field.type == "records"
        if check:
            self._encode_null(field, value, form)
            out.indent += 1
        if field.is_array:
            self._encode_array(value, field)
        elif field.type == "string":
            self._encode_string(value, field)
        else:
            self._encode_length(field, form, f"len({value})")
            out(f"append({value})")
        if check:
            out.indent -= 1

    def _encode_string(self, value: str, field: Field) -> None:
        self._out(f"s = {value}.encode()")
        self._encode_length(field, ">h", "len(s)")
        self._out("append(s)")

    def _encode_nested(self, value: str, field: Field, tagged: bool) -> None:
        out = self._out
        assert field.struct is not None
        if self._nullable(field):
            out(f"if {value} is None: append({'ZERO' if tagged else 'MINUS_ONE'})")
            out("else:")
            out.indent += 1
            out("append(ONE)")
        self._depth += 1
        name = f"m{self._depth}"
        out(f"{name} = {value}")
        self.encode_struct(name, field.struct.fields)
        self._depth -= 1
        if self._nullable(field):
            out.indent -= 1

    def _encode_array(self, value: str, field: Field) -> None:
        out = self._out
        self._encode_length(field, ">i", f"len({value})")
        if field.type in FIXED:
            if field.type == "uuid":
                out(f"append(b''.join({value}))")
            else:
                letter = FIXED[field.type][0]
                out.arrays.add(letter)
                out(f"n = len({value})")
                out(f"if n < SHORT_ARRAY: append({letter}_pack[n](*{value}))")
                out(f"else: append(_Struct(f'>{{n}}{letter}').pack(*{value}))")
            return
        self._depth += 1
        name = f"m{self._depth}"
        out(f"for {name} in {value}:")
        out.indent += 1
        if field.struct is not None:
            before = len(out.lines)
            self.encode_struct(name, field.struct.fields)
            if len(out.lines) == before:
                out("pass")
        elif field.type == "string":
            self._encode_string(name, field)
        else:
            self._encode_length(field, ">i", f"len({name})")
            out(f"append({name})")
        out.indent -= 1
        self._depth -= 1

    def _encode_tagged(self, source: str, tagged: list[Field]) -> None:
        """Tagged fields that differ from their defaults, each as (tag, size, value)."""
        out = self._out
        list_name = f"g{self._depth}"
        out(f"{list_name} = None")
        for f in tagged:
            out(f"if {self._differs(f'{source}.{f.name}', f)}:")
            out.indent += 1
            out(f"if {list_name} is None: {list_name} = []")
            outer = f"append{self._depth}"
            out(f"{outer} = append; parts = []; append = parts.append")
            self._depth += 1
            if f.type in FIXED and not f.is_array:
                self._encode_run(source, [f], pad=False)
            else:
                self._encode_field(source, f, tagged=True)
            self._depth -= 1
            out(f"{list_name}.append(({f.tag}, b''.join(parts))); append = {outer}")
            out.indent -= 1
        out(f"if {list_name} is None: append(ZERO)")
        out("else:")
        out.indent += 1
        out(f"append(write_uvarint(len({list_name})))")
        out(f"for tag, value in {list_name}:")
        out("    append(write_uvarint(tag)); append(write_uvarint(len(value))); append(value)")
        out.indent -= 1

    def _differs(self, value: str, field: Field) -> str:
        """An expression that is true when a tagged field has to be written."""
        default = _default(field)
        if default in {"None", "True", "False"}:
            return f"{value} is not {default}"
        if default == "[]":
            return f"{value} is None or {value}" if field.nullable else value
        if _is_shared_default(field):
            return f"{value} is not {default} and {value} != {default}"
        return f"{value} != {default}"


def _functions(message: Message, name: str, out: _Source) -> tuple[dict[int, str], dict[int, str]]:
    """Writes the codec functions; for each version the names of its two."""
    decoders: dict[int, str] = {}
    encoders: dict[int, str] = {}
    seen: dict[str, str] = {}
    for version in range(message.versions.low, message.versions.high + 1):
        for kind, names in (("decode", decoders), ("encode", encoders)):
            body = _Source()
            body.structs, body.arrays = out.structs, out.arrays
            body.indent = 1
            codec = _Codec(body, message, version)
            if kind == "decode":
                body(f"m = new({name})")
                codec.decode_struct("m", message.fields)
                body("return m, p")
                signature = "b, p"
            else:
                codec.encode_struct("m", message.fields)
                signature = "m, append"
                if not body.lines:
                    body("pass")
            text = "\n".join(body.lines)
            function = seen.get(kind + text)
            if function is None:
                function = f"{kind}_v{version}"
                seen[kind + text] = function
                out(f"def {function}({signature}):")
                out.lines.append(text)
                out("")
            names[version] = function
    return decoders, encoders


PRELUDE = """\
# Generated from odradek/wire/messages by odradek.wire.generator. Do not edit.
from __future__ import annotations
from struct import Struct as _Struct
from typing import Any
from odradek.wire.primitives import (
    Message, MalformedMessage, Records, SHORT_ARRAY, Struct, UVARINTS, UnsupportedField,
    ZERO_UUID, array_codecs, check_count, check_tagged_count, null_field, read_uvarint,
    read_uvarint_tail, skip_tagged_fields, write_uvarint,
)
new = object.__new__
UNSET: Any = object()
ZERO = b"\\x00"; ONE = b"\\x01"; MINUS_ONE = b"\\xff"
int8_unpack = _Struct(">b").unpack_from
"""


def module_source(message: Message) -> str:
    """The Python module of one message."""
    out = _Source()
    defaults: set[str] = set()
    structs = _all_structs(message.fields)
    shared = {
        f.type
        for fields in [message.fields, *(s.fields for s in structs)]
        for f in fields
        if _is_shared_default(f)
    }
    for struct in structs:
        _class(out, struct.name, struct.fields, "Struct")
        if struct.name in shared and struct.name not in defaults:
            defaults.add(struct.name)
            out(f"DEFAULT_{struct.name} = {struct.name}()")
        out("")
    _class(out, message.name, message.fields, "Message")
    out("")
    classes, out.lines = out.lines, []
    decoders, encoders = _functions(message, message.name, out)
    flexible = message.flexible.low if message.flexible else 32767
    out(f"{message.name}.API_KEY = {message.api_key}")
    out(f"{message.name}.VERSION_MIN = {message.versions.low}")
    out(f"{message.name}.VERSION_MAX = {message.versions.high}")
    out(f"{message.name}.FLEXIBLE_MIN = {flexible}")
    for attribute, table in (("DECODERS", decoders), ("ENCODERS", encoders)):
        pairs = ", ".join(f"{version}: {name}" for version, name in table.items())
        out(f"{message.name}.{attribute} = {{{pairs}}}")
    compiled = [
        f"_s = _Struct({form!r}); {name}_pack = _s.pack; {name}_unpack = _s.unpack_from"
        for form, name in out.structs.items()
    ]
    compiled += [f"{x}_pack, {x}_unpack = array_codecs({x!r})" for x in sorted(out.arrays)]
    return "\n".join([PRELUDE, *classes, *compiled, "", *out.lines, ""])


def registry_source(apis: list[Api]) -> str:
    """The module that lists all APIs: key, name, versions, listeners."""
    lines = [PRELUDE.splitlines()[0], "APIS = ("]
    for api in apis:
        versions, flexible = api.request.versions, api.request.flexible
        unstable = api.request.unstable.low if api.request.unstable else 32767
        lines.append(
            f"    ({api.key}, {api.name!r}, {versions.low}, {versions.high}, "
            f"{flexible.low if flexible else 32767}, {unstable}, {api.listeners!r}),"
        )
    return "\n".join([*lines, ")", ""])
