"""The 128-bit Murmur3 hash (x64), with the seed of Kafka Streams."""

from __future__ import annotations

from struct import Struct

_SEED = 104729
_MASK = 0xFFFFFFFFFFFFFFFF
_ONE = 0x87C37B91114253D5
_TWO = 0x4CF5AD432745937F
_BLOCK = Struct("<QQ")


def _turn(value: int, count: int) -> int:
    return ((value << count) | (value >> (64 - count))) & _MASK


def _mix(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ (value >> 33)


def hash128(data: bytes) -> bytes:
    """Return the hash: two numbers of 8 bytes, big endian."""
    one = two = _SEED
    whole = len(data) & ~15
    for first, second in _BLOCK.iter_unpack(data[:whole]):
        one ^= _turn(first * _ONE & _MASK, 31) * _TWO & _MASK
        one = ((_turn(one, 27) + two) * 5 + 0x52DCE729) & _MASK
        two ^= _turn(second * _TWO & _MASK, 33) * _ONE & _MASK
        two = ((_turn(two, 31) + one) * 5 + 0x38495AB5) & _MASK
    rest = data[whole:]
    if len(rest) > 8:
        tail = int.from_bytes(rest[8:], "little")
        two ^= _turn(tail * _TWO & _MASK, 33) * _ONE & _MASK
    if rest:
        tail = int.from_bytes(rest[:8], "little")
        one ^= _turn(tail * _ONE & _MASK, 31) * _TWO & _MASK
    one ^= len(data)
    two ^= len(data)
    one = (one + two) & _MASK
    two = (two + one) & _MASK
    one, two = _mix(one), _mix(two)
    one = (one + two) & _MASK
    two = (two + one) & _MASK
    return one.to_bytes(8, "big") + two.to_bytes(8, "big")
