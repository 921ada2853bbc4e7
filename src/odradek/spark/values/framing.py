"""Splits columns of byte strings whose schema is in a registry (`odradek.client.serializers.framing`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from odradek.client.serializers.framing import MAGIC, PREFIX
from odradek.client.serializers.registry import NotRegisteredError, Registered, Registry
from odradek.client.serializers.settings import RegistrySettings
from odradek.spark.values.bulk import Decoded, Decoder

NO_ID = -1


def split(values: pa.BinaryArray) -> tuple[NDArray[np.int64], pa.BinaryArray]:
    """Return the ids of byte strings, and the contents. The id is `NO_ID` without a prefix."""
    count = len(values)
    ids = np.full(count, NO_ID, np.int64)
    _, bounds, data = values.buffers()
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy().astype(np.int64)
    rows = np.flatnonzero(lengths >= PREFIX.size)
    if rows.size:
        content = np.frombuffer(data, np.uint8)
        start = np.frombuffer(bounds, np.int32)[values.offset :][:count].astype(np.int64)[rows]
        found = sum(
            content[start + 1 + place].astype(np.int64) << (24 - 8 * place) for place in range(4)
        )
        ids[rows] = np.where(content[start] == MAGIC, found, NO_ID)
    # Not `binary_slice`, which fails if values are shorter than the prefix (Arrow 26).
    return ids, pc.binary_replace_slice(values, 0, PREFIX.size, b"")


@dataclass(frozen=True)
class FramedDecoder(ABC):
    """Decodes byte strings with a prefix."""

    registry: RegistrySettings
    type: pa.DataType

    @abstractmethod
    def decoder(self, written: Registered) -> Decoder:
        """Return the decoder of byte strings of a registered schema.

        Raises:
            ValueError: the schema does not fit the column.
        """

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode all byte strings.

        Raises:
            RegistryError: the registry does not respond.
        """
        ids, contents = split(values)
        is_valid = values.is_valid().to_numpy(zero_copy_only=False)
        bad = is_valid & (ids == NO_ID)
        reasons = dict.fromkeys(
            np.flatnonzero(bad).tolist(),
            f"it does not begin with the byte {MAGIC} and the id of a schema in the registry",
        )
        arrays: list[pa.Array] = []
        source = np.full(len(values), -1)
        count = 0
        for schema_id in np.unique(ids[ids != NO_ID]).tolist():
            rows = np.flatnonzero(ids == schema_id)
            decoder = self._decoder_of(schema_id)
            if isinstance(decoder, str):
                bad[rows] = True
                reasons |= dict.fromkeys(rows.tolist(), decoder)
                continue
            if len(rows) == len(values):
                return decoder.decode(contents)
            decoded = decoder.decode(contents.take(pa.array(rows)))
            arrays.append(decoded.rows)
            source[rows] = count + np.arange(len(rows))
            count += len(rows)
            bad[rows] = decoded.bad
            reasons |= {int(rows[number]): reason for number, reason in decoded.reasons.items()}
        if not arrays:
            return Decoded(pa.nulls(len(values), self.type), bad, reasons)
        rows_in_order = pa.concat_arrays(arrays).take(pa.array(source, mask=source < 0))
        return Decoded(rows_in_order, bad, reasons)

    def _decoder_of(self, schema_id: int) -> Decoder | str:
        """Return the decoder of a schema, or why there is none."""
        try:
            return self.decoder(Registry(self.registry).by_id(schema_id))
        except NotRegisteredError as error:
            return str(error)
        except ValueError as error:
            return f"schema {schema_id} in the registry: {error}"
