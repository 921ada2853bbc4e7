"""Reads schemas of Protobuf: sets of descriptors, and .proto texts, which protoc compiles.

A schema is pickled as descriptors, not as a file. For columns of Spark the descriptors are changed in one
respect: maps are repeated entries. Both are encoded alike, and lists of entries can be converted as
whole columns.
"""

from __future__ import annotations

import base64
import functools
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from odradek.client.suggestion import nearest

INLINE_NAME = "odradek_column.proto"
COMPILE_TIMEOUT_S = 60
WELL_KNOWN = {
    each.DESCRIPTOR.name: each.DESCRIPTOR.serialized_pb
    for each in (
        any_pb2,
        api_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        source_context_pb2,
        struct_pb2,
        timestamp_pb2,
        type_pb2,
        wrappers_pb2,
    )
}
"""Files that each schema may import."""
SYNTAX_END = "}"


class ProtobufSchemaError(ValueError):
    """A text or a file is no schema of Protobuf, or does not have a message."""


@dataclass(frozen=True)
class ProtobufSchema:
    """The descriptors of a file and of those that it imports, and a message of the file."""

    descriptors: bytes
    """A FileDescriptorSet. Its last file has the message."""
    message: str
    """The full name of the message."""
    text: str | None = None
    """The .proto text, if it is known."""

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor of the message, whose maps are repeated entries."""
        return _pool(self.descriptors).FindMessageTypeByName(self.message)

    @property
    def message_class(self) -> type[Message]:
        """The class of the message."""
        pool = _pool(self.descriptors, has_maps=True)
        descriptor = pool.FindMessageTypeByName(self.message)
        found: type[Message] = message_factory.GetMessageClass(descriptor)
        return found

    @property
    def entries(self) -> frozenset[str]:
        """The full names of the types of entries of maps."""
        return _entries(self.descriptors)

    @property
    def indexes(self) -> tuple[int, ...]:
        """The place of the message in its file: its number, after those of the messages around it."""
        return dict(_messages(_files(self.descriptors)[-1]))[self.message]


def is_text(schema: str) -> bool:
    """Return whether an option has a .proto text, not the path of a file."""
    return SYNTAX_END in schema


def from_file(path: str, message: str | None) -> ProtobufSchema:
    """Read a .proto file, or a set of descriptors (`protoc --descriptor_set_out --include_imports`).

    Raises:
        ProtobufSchemaError: the file is no schema, or does not have the message.
        OSError: the file cannot be read.
    """
    file = Path(path)
    if file.suffix == ".proto":
        text = file.read_text(encoding="utf-8")
        return _chosen(_compiled(file.name, [str(file.parent)]), message, text)
    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes())
    except DecodeError:
        raise ProtobufSchemaError(
            f"{path} is neither a .proto file nor a set of descriptors"
        ) from None
    if not found.file:
        raise ProtobufSchemaError(f"{path} has no descriptors")
    return _chosen(found.SerializeToString(), message, None)


def from_text(
    text: str, message: str | None, imports: tuple[tuple[str, str], ...] = ()
) -> ProtobufSchema:
    """Compile a .proto text. `imports` are the names and texts of files that it imports.

    Raises:
        ProtobufSchemaError: the text is no schema, or does not have the message.
    """
    return _chosen(_compiled_text(text, imports), message, text)


def from_place(
    text: str, indexes: tuple[int, ...], imports: tuple[tuple[str, str], ...] = ()
) -> ProtobufSchema:
    """Compile a .proto text. The message is the one at a place of its file.

    Raises:
        ProtobufSchemaError: the text is no schema, or has no message there.
    """
    descriptors = _compiled_text(text, imports)
    for name, place in _messages(_files(descriptors)[-1]):
        if place == indexes:
            return ProtobufSchema(descriptors, name, text)
    raise ProtobufSchemaError(f"the schema has no message at the place {list(indexes)}")


@functools.lru_cache(maxsize=1000)
def _compiled_text(text: str, imports: tuple[tuple[str, str], ...]) -> bytes:
    if not is_text(text):
        return _from_base64([*(content for _, content in imports), text])
    with tempfile.TemporaryDirectory(prefix="odradek-") as directory:
        for name, content in [*imports, (INLINE_NAME, text)]:
            path = (Path(directory) / name).resolve()
            if not path.is_relative_to(Path(directory).resolve()):
                raise ProtobufSchemaError(f"the schema imports a file outside of it: {name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return _compiled(INLINE_NAME, [directory])


def _from_base64(texts: Sequence[str]) -> bytes:
    """Return the set of descriptors of files that were registered as descriptors in base64."""
    try:
        files = [
            descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(each, validate=True))
            for each in texts
        ]
    except (ValueError, DecodeError):
        raise ProtobufSchemaError("it is no schema of Protobuf") from None
    found: bytes = descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
    return found


def _compiled(name: str, directories: Sequence[str]) -> bytes:
    included = [*directories, str(resources.files("grpc_tools") / "_proto")]
    with tempfile.TemporaryDirectory(prefix="odradek-") as out:
        target = Path(out) / "descriptors"
        done = subprocess.run(  # noqa: S603  (the compiler of an installed package)
            [
                sys.executable,
                "-m",
                "grpc_tools.protoc",
                *(f"-I{each}" for each in included),
                "--include_imports",
                f"--descriptor_set_out={target}",
                name,
            ],
            capture_output=True,
            text=True,
            timeout=COMPILE_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise ProtobufSchemaError(f"it is no schema of Protobuf: {done.stderr.strip()}")
        return target.read_bytes()


def _chosen(descriptors: bytes, message: str | None, text: str | None) -> ProtobufSchema:
    """Return the schema of a message. Without a name, it is the only one of the last file.

    Sets of descriptors may have several files of the user. Then the file with the message is moved to
    the end.
    """
    files = _files(descriptors)
    last = [name for name, indexes in _messages(files[-1]) if len(indexes) == 1]
    if message is None:
        if len(last) != 1:
            raise ProtobufSchemaError(
                f"the schema has several messages, so one must be chosen: {', '.join(last)}"
                if last
                else "the schema has no message"
            )
        return ProtobufSchema(descriptors, last[0], text)
    for file in reversed(files):
        names = [name for name, _ in _messages(file)]
        for name in names:
            if message in {name, name.removeprefix(f"{file.package}.")}:
                others = [each for each in files if each.name != file.name]
                found = descriptor_pb2.FileDescriptorSet(file=[*others, file])
                return ProtobufSchema(found.SerializeToString(), name, text)
    known = [name for file in files for name, _ in _messages(file)]
    own = [name for name in known if not name.startswith("google.protobuf.")]
    by_name = {each.rpartition(".")[2]: each for each in own} | {each: each for each in own}
    hint = nearest(message, by_name, by_name.__getitem__) or f". It has {', '.join(own)}"
    raise ProtobufSchemaError(f"the schema has no message {message}{hint}")


def _files(descriptors: bytes) -> list[descriptor_pb2.FileDescriptorProto]:
    return list(descriptor_pb2.FileDescriptorSet.FromString(descriptors).file)


def _messages(
    file: descriptor_pb2.FileDescriptorProto,
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the full names of messages, and their places. Entries of maps do not count."""

    def walk(
        types: Sequence[descriptor_pb2.DescriptorProto], scope: str, above: tuple[int, ...]
    ) -> Iterator[tuple[str, tuple[int, ...]]]:
        own = [each for each in types if not each.options.map_entry]
        for number, each in enumerate(own):
            name = f"{scope}.{each.name}" if scope else each.name
            yield name, (*above, number)
            yield from walk(each.nested_type, name, (*above, number))

    yield from walk(file.message_type, file.package, ())


@functools.lru_cache(maxsize=1000)
def _entries(descriptors: bytes) -> frozenset[str]:
    found: set[str] = set()

    def walk(types: Sequence[descriptor_pb2.DescriptorProto], scope: str) -> None:
        for each in types:
            name = f"{scope}.{each.name}" if scope else each.name
            if each.options.map_entry:
                found.add(name)
            walk(each.nested_type, name)

    for file in _files(descriptors):
        walk(file.message_type, file.package)
    return frozenset(found)


@functools.lru_cache(maxsize=1000)
def _pool(descriptors: bytes, *, has_maps: bool = False) -> descriptor_pool.DescriptorPool:
    """Return a pool of the files, in which maps are repeated entries unless `has_maps`.

    Raises:
        ProtobufSchemaError: a file imports another one that is missing.
    """
    pool = descriptor_pool.DescriptorPool()
    files = {each.name: each for each in _files(descriptors)}
    done: set[str] = set()

    def add(name: str, importer: str) -> None:
        if name in done:
            return
        done.add(name)
        if name in files:
            file = files[name]
        elif name in WELL_KNOWN:
            file = descriptor_pb2.FileDescriptorProto.FromString(WELL_KNOWN[name])
        else:
            raise ProtobufSchemaError(
                f"{importer} imports {name}, which is missing: make the set of descriptors with "
                "--include_imports"
            )
        for each in file.dependency:
            add(each, name)
        if not has_maps:
            for each in file.message_type:
                _without_maps(each)
        pool.AddSerializedFile(file.SerializeToString())

    try:
        for each in files:
            add(each, each)
    except TypeError as error:
        raise ProtobufSchemaError(f"it is no schema of Protobuf: {error}") from None
    return pool


def _without_maps(message: descriptor_pb2.DescriptorProto) -> None:
    message.options.ClearField("map_entry")
    for each in message.nested_type:
        _without_maps(each)
