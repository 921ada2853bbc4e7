"""Generates the `encode` function of one version of a message.

The function appends parts to a list. A part is a packed sequence of fixed-width fields, a length, a
string, or bytes.
"""

from __future__ import annotations

from odradek.wire.declaration import Field
from odradek.wire.source import FIXED, VersionCodec, default_expression, is_shared_default


class Encoder(VersionCodec):
    """Generates statements that append the encodings of fields."""

    def encode_struct(self, source: str, fields: list[Field]) -> None:
        """Generate code that appends the object named `source`."""
        out = self.out
        placed, tagged, _ = self.split(fields)
        end = self.message_flexible and not tagged  # the struct ends with a single zero byte
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
        self.out(f"append({self.out.struct(form)}_pack({names}))")

    def _encode_length(self, field: Field, form: str, length: str) -> None:
        out = self.out
        if self.is_flexible(field):
            out(f"n = {length} + 1")
            out("append(UVARINTS[n] if n < 128 else write_uvarint(n))")
        else:
            out(f"append({out.struct(form)}_pack({length}))")

    def _encode_null(self, field: Field, value: str, form: str) -> None:
        """Generate a branch that encodes or rejects null, and an `else`.

        The caller generates the body of the `else`.
        """
        out = self.out
        if self.is_nullable(field):
            null = "ZERO" if self.is_flexible(field) else f"{out.struct(form)}_pack(-1)"
            out(f"if {value} is None: append({null})")
        else:
            out(f"if {value} is None: raise UnsupportedField('{field.name} must not be null')")
        out("else:")

    def _encode_field(self, source: str, field: Field, tagged: bool = False) -> None:
        out = self.out
        value = f"{source}.{field.name}"
        if field.is_struct and not field.is_array:
            self._encode_nested(value, field, tagged)
            return
        form = ">h" if field.type == "string" and not field.is_array else ">i"
        check = self.is_nullable(field) or field.nullable or field.type == "records"
        if check:
            self._encode_null(field, value, form)
            out.indent()
        if field.is_array:
            self._encode_array(value, field)
        elif field.type == "string":
            self._encode_string(value, field)
        else:
            self._encode_length(field, form, f"len({value})")
            out(f"append({value})")
        if check:
            out.dedent()

    def _encode_string(self, value: str, field: Field) -> None:
        self.out(f"s = {value}.encode()")
        self._encode_length(field, ">h", "len(s)")
        self.out("append(s)")

    def _encode_nested(self, value: str, field: Field, tagged: bool) -> None:
        out = self.out
        assert field.struct is not None
        if self.is_nullable(field):
            out(f"if {value} is None: append({'ZERO' if tagged else 'MINUS_ONE'})")
            out("else:")
            out.indent()
            out("append(ONE)")
        self.depth += 1
        name = f"m{self.depth}"
        out(f"{name} = {value}")
        self.encode_struct(name, field.struct.fields)
        self.depth -= 1
        if self.is_nullable(field):
            out.dedent()

    def _encode_array(self, value: str, field: Field) -> None:
        out = self.out
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
        self.depth += 1
        name = f"m{self.depth}"
        out(f"for {name} in {value}:")
        out.indent()
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
        out.dedent()
        self.depth -= 1

    def _encode_tagged(self, source: str, tagged: list[Field]) -> None:
        """Generate code that appends the tagged fields whose value is not the default.

        The encoding of a tagged field consists of tag, size and value.
        """
        out = self.out
        list_name = f"g{self.depth}"
        out(f"{list_name} = []")
        for f in tagged:
            value = f"{source}.{f.name}"
            out(f"if {self._differs(value, f)}:")
            out.indent()
            if f.type in FIXED and not f.is_array:
                letter, size = FIXED[f.type]
                pack = f"{out.struct('>BB' + letter)}_pack"
                out(f"{list_name}.append({pack}({f.tag}, {size}, {value}))")
            else:
                outer = f"append{self.depth}"
                out(f"{outer} = append; parts = []; append = parts.append")
                self.depth += 1
                self._encode_field(source, f, tagged=True)
                self.depth -= 1
                out(f"s = b''.join(parts); append = {outer}")
                out(f"{list_name}.append(UVARINTS[{f.tag}] + write_uvarint(len(s)) + s)")
            out.dedent()
        out(f"append(UVARINTS[len({list_name})] + b''.join({list_name}))")

    def _differs(self, value: str, field: Field) -> str:
        """Return an expression that is true if a tagged field must be written."""
        default = default_expression(field)
        if default in {"None", "True", "False"}:
            return f"{value} is not {default}"
        if default == "[]":
            return f"{value} is None or {value}" if field.nullable else value
        if is_shared_default(field):
            return f"{value} is not {default} and {value} != {default}"
        return f"{value} != {default}"
