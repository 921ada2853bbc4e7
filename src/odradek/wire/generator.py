"""Generates the codecs from declarations, in one Python module per message.

A module has one class per struct, with the fields of all versions. For every version, a module has
a `decode` function and an `encode` function. Each field is one or a few lines in these functions.
No table of fields is interpreted at run time. Consecutive fixed-width fields use one precompiled
`struct.Struct`. Versions with the same encoding share their functions.

The code for nested structs is inlined. Therefore the names of variables contain the nesting depth:
`m` is the message, and `m1` is an element of an array in the message. `b` is the buffer, `p` is the
position, and `n` is a length.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.wire.declaration import Api, Field, Message, Struct
from odradek.wire.decoder import Decoder
from odradek.wire.encoder import Encoder
from odradek.wire.source import Source, default_expression, is_shared_default

TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
}


def _all_structs(fields: Iterable[Field]) -> list[Struct]:
    """Return all structs nested in `fields`, innermost first, without duplicates."""
    found: dict[str, Struct] = {}
    for each in fields:
        if each.struct is not None:
            for struct in _all_structs(each.struct.fields):
                found.setdefault(struct.name, struct)
            found.setdefault(each.struct.name, each.struct)
    return list(found.values())


def _annotation(field: Field) -> str:
    base = field.type if field.is_struct else TYPES.get(field.type, "int")
    text = f"list[{base}]" if field.is_array else base
    return f"{text} | None" if field.nullable or field.type == "records" else text


def _class(out: Source, name: str, fields: list[Field], base: str) -> None:
    out(f"class {name}({base}):")
    out.indent()
    out(f"__slots__ = {tuple(f.name for f in fields)!r}")
    arguments, body = [], []
    for f in fields:
        default = default_expression(f)
        mutable = default == "[]" or default.endswith("()")
        arguments.append(f"{f.name}: {_annotation(f)} = {'UNSET' if mutable else default}")
        value = f"{default} if {f.name} is UNSET else {f.name}" if mutable else f.name
        body.append(f"self.{f.name} = {value}")
    out(f"def __init__(self{', *, ' if arguments else ''}{', '.join(arguments)}) -> None:")
    out.indent()
    for line in body or ["pass"]:
        out(line)
    out.dedent(2)
    for f in fields:
        if is_shared_default(f) and f"DEFAULT_{f.type} =" not in "\n".join(out.lines):
            raise AssertionError(f"{f.type} must be declared before it is a default")


def _functions(message: Message, name: str, out: Source) -> tuple[dict[int, str], dict[int, str]]:
    """Generate the functions. Return the names of the decoders and of the encoders by version."""
    decoders: dict[int, str] = {}
    encoders: dict[int, str] = {}
    seen: dict[str, str] = {}
    for version in range(message.versions.low, message.versions.high + 1):
        for kind, names in (("decode", decoders), ("encode", encoders)):
            body = out.body()
            if kind == "decode":
                body(f"m = new({name})")
                Decoder(body, message, version).decode_struct("m", message.fields)
                body("return m, p")
                signature = "b, p"
            else:
                Encoder(body, message, version).encode_struct("m", message.fields)
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
    """Return the source of the module of one message."""
    out = Source()
    defaults: set[str] = set()
    structs = _all_structs(message.fields)
    shared = {
        f.type
        for fields in [message.fields, *(s.fields for s in structs)]
        for f in fields
        if is_shared_default(f)
    }
    for struct in structs:
        _class(out, struct.name, struct.fields, "Struct")
        if struct.name in shared and struct.name not in defaults:
            defaults.add(struct.name)
            out(f"DEFAULT_{struct.name} = {struct.name}()")
        out("")
    _class(out, message.name, message.fields, "Message")
    out("")
    classes = out.take_lines()
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
    """Return the source of the module that lists the APIs with key, name, versions, listeners."""
    lines = [PRELUDE.splitlines()[0], "APIS = ("]
    for api in apis:
        versions, flexible = api.request.versions, api.request.flexible
        unstable = api.request.unstable.low if api.request.unstable else 32767
        lines.append(
            f"    ({api.key}, {api.name!r}, {versions.low}, {versions.high}, "
            f"{flexible.low if flexible else 32767}, {unstable}, {api.listeners!r}),"
        )
    return "\n".join([*lines, ")", ""])
