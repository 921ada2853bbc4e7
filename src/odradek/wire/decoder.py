"""Generates the `decode` function of one version of a message.

In the generated code, `b` is the buffer, `p` is the position, and `n` is a length or count. `m` is
the message, and `m1` and `m2` are nested structs. One `unpack` reads consecutive fixed-width
fields, and a length that follows them.
"""

from __future__ import annotations

from odradek.wire.declaration import Field
from odradek.wire.source import FIXED, VersionCodec, default_expression

LENGTH_SIZES = {"": 0, "B": 1, "h": 2, "i": 4}


def _element_size_min(field: Field, version: int, flexible: bool) -> int:
    """Return the minimum number of bytes of an array element."""
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


class Decoder(VersionCodec):
    """Generates statements that read fields from `b` at `p`."""

    def decode_struct(self, target: str, fields: list[Field]) -> None:
        """Generate code that fills the object named `target`."""
        out = self.out
        placed, tagged, absent = self.split(fields)
        for f in absent + tagged:
            out(f"{target}.{f.name} = {default_expression(f)}")
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
        if not self.message_flexible:
            self._decode_run(target, run)
            return
        self._decode_run(target, run, then="B")
        if not tagged:
            out("if n: p = skip_tagged_fields(b, p, n)")
            return
        self._decode_tagged(target, tagged)

    def _decode_tagged(self, target: str, tagged: list[Field]) -> None:
        out = self.out
        end, tag, each = f"e{self.depth}", f"t{self.depth}", f"_t{self.depth}"
        out("if n:")
        out.indent()
        out("if n > 127: n, p = read_uvarint_tail(b, p, n)")
        out("check_tagged_count(n)")
        out(f"c{each} = n")
        out(f"for {each} in range(c{each}):")
        out.indent()
        out(f"{tag}, p = read_uvarint(b, p)")
        out("n, p = read_uvarint(b, p)")
        out(f"{end} = p + n")
        for i, f in enumerate(tagged):
            out(f"{'el' if i else ''}if {tag} == {f.tag}:")
            out.indent()
            self.depth += 1
            if f.type in FIXED and not f.is_array:
                self._decode_run(target, [f])
            else:
                self._decode_field(target, f, [], tagged=True)
            self.depth -= 1
            out(f"if p != {end}: raise MalformedMessage('tagged field {f.name} of a wrong size')")
            out.dedent()
        out("else:")
        out(f"    p = {end}")
        out(f"if {end} > len(b): raise MalformedMessage('tagged field past the end')")
        out.dedent(2)

    def _decode_run(self, target: str, run: list[Field], then: str = "") -> None:
        """Generate code that reads fixed-width fields, and then a length or count into `n`.

        `then` is the struct format of the length or count; without it, none is read.
        """
        if not run and then in {"", "B"}:
            if then:
                self.out("n = b[p]; p += 1")
            return
        form = ">" + "".join(FIXED[f.type][0] for f in run) + then
        size = sum(FIXED[f.type][1] for f in run) + LENGTH_SIZES[then]
        names = [f"{target}.{f.name}" for f in run] + (["n"] if then else [])
        comma = "," if len(names) == 1 else ""
        unpack = f"{self.out.struct(form)}_unpack(b, p); p += {size}"
        self.out(f"{', '.join(names)}{comma} = {unpack}")

    def _decode_length(self, field: Field, letter: str, target: str, run: list[Field]) -> None:
        """Generate code that reads the fields of `run`, and then a length into `n`.

        The length -1 means null. `letter` is the struct format of a length that is not a varint.
        """
        if not self.is_flexible(field):
            self._decode_run(target, run, then=letter)
            return
        self._decode_run(target, run, then="B")
        self.out("if n > 127: n, p = read_uvarint_tail(b, p, n)")
        self.out("n -= 1")

    def _decode_null(self, target: str, field: Field) -> None:
        """Generate a branch for null, and an `else`.

        The caller generates the body of the `else`.
        """
        if self.is_nullable(field):
            self.out(f"if n < 0: {target}.{field.name} = None")
        else:
            self.out(f"if n < 0: raise null_field({field.name!r})")
        self.out("else:")

    def _decode_field(
        self, target: str, field: Field, run: list[Field], tagged: bool = False
    ) -> None:
        out = self.out
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
        out = self.out
        assert field.struct is not None
        if self.is_nullable(field):
            if tagged:
                out("n, p = read_uvarint(b, p)")
                out(f"if n == 0: {target}.{field.name} = None")
            else:
                out("n, = int8_unpack(b, p); p += 1")
                out(f"if n < 0: {target}.{field.name} = None")
            out("else:")
            out.indent()
        self.depth += 1
        name = f"m{self.depth}"
        out(f"{target}.{field.name} = {name} = new({field.type})")
        self.decode_struct(name, field.struct.fields)
        self.depth -= 1
        if self.is_nullable(field):
            out.dedent()

    def _decode_array(self, target: str, field: Field, run: list[Field]) -> None:
        out = self.out
        flexible = self.is_flexible(field)
        self._decode_length(field, "i", target, run)
        self._decode_null(target, field)
        out.indent()
        if field.type in FIXED and field.type != "uuid":
            self._decode_numbers(f"{target}.{field.name}", *FIXED[field.type])
            out.dedent()
            return
        out(f"check_count(n, {_element_size_min(field, self.version, flexible)}, b, p)")
        if field.type == "uuid":
            elements = "[bytes(b[i:i + 16]) for i in range(p, p + 16 * n, 16)]"
            out(f"{target}.{field.name} = {elements}; p += 16 * n")
        else:
            self.depth += 1
            name, items, each = f"m{self.depth}", f"a{self.depth}", f"_{self.depth}"
            out(f"{target}.{field.name} = {items} = []")
            out(f"c{each} = n")
            out(f"for {each} in range(c{each}):")
            out.indent()
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
            out.dedent()
            self.depth -= 1
        out.dedent()

    def _decode_numbers(self, target: str, letter: str, size: int) -> None:
        """Generate code that reads an array of numbers. Short arrays use a precompiled Struct."""
        out = self.out
        out.arrays.add(letter)
        out(f"if n < SHORT_ARRAY: {target} = list({letter}_unpack[n](b, p))")
        out("else:")
        out(f"    check_count(n, {size}, b, p)")
        out(f"    {target} = list(_Struct(f'>{{n}}{letter}').unpack_from(b, p))")
        out(f"p += {size} * n")
