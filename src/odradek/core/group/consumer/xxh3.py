"""XXH3, 64 bits, seed 0: the hash by which Kafka notices that subscribed topics have changed.

The algorithm is that of https://github.com/Cyan4973/xxHash (the specification's names are kept).
Inputs are small and hashed when topics change, so plain Python is fast enough.
"""

from __future__ import annotations

from struct import Struct

_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1, _PRIME64_2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
_PRIME64_3, _PRIME64_4, _PRIME64_5 = 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_PRIME_MX1, _PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_MASK = 0xFFFFFFFFFFFFFFFF
_MASK32 = 0xFFFFFFFF

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE = 64
_SECRET_STEP = 8
_STRIPES_PER_BLOCK = (len(_SECRET) - _STRIPE) // _SECRET_STEP

_u32 = Struct("<I").unpack_from
_u64 = Struct("<Q").unpack_from
_lanes = Struct("<8Q").unpack_from


def xxh3_64(data: bytes) -> int:
    """The hash as a signed number, as Java has it."""
    length = len(data)
    if length <= 16:
        value = _short(data)
    elif length <= 128:
        value = _up_to_128(data)
    elif length <= 240:
        value = _up_to_240(data)
    else:
        value = _long(data)
    return value - (1 << 64) if value >> 63 else value


def _word(data: bytes, position: int) -> int:
    return int(_u64(data, position)[0])


def _fold(a: int, b: int) -> int:
    product = a * b
    return (product & _MASK) ^ (product >> 64)


def _avalanche64(value: int) -> int:
    value = (value ^ (value >> 33)) * _PRIME64_2 & _MASK
    value = (value ^ (value >> 29)) * _PRIME64_3 & _MASK
    return value ^ (value >> 32)


def _avalanche(value: int) -> int:
    value = (value ^ (value >> 37)) * _PRIME_MX1 & _MASK
    return value ^ (value >> 32)


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _swap(value: int) -> int:
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def _short(data: bytes) -> int:
    length = len(data)
    if length > 8:
        low = _word(data, 0) ^ _word(_SECRET, 24) ^ _word(_SECRET, 32)
        high = _word(data, length - 8) ^ _word(_SECRET, 40) ^ _word(_SECRET, 48)
        return _avalanche((length + _swap(low) + high + _fold(low, high)) & _MASK)
    if length > 3:
        first, last = _u32(data, 0)[0], _u32(data, length - 4)[0]
        key = _word(_SECRET, 8) ^ _word(_SECRET, 16)
        value = (last + (first << 32)) ^ key
        value ^= _rotate(value, 49) ^ _rotate(value, 24)
        value = value * _PRIME_MX2 & _MASK
        value ^= (value >> 35) + length
        value = value * _PRIME_MX2 & _MASK
        return int(value ^ (value >> 28))
    if length:
        combined = data[0] << 16 | data[length >> 1] << 24 | data[-1] | length << 8
        return _avalanche64(combined ^ _u32(_SECRET, 0)[0] ^ _u32(_SECRET, 4)[0])
    return _avalanche64(_word(_SECRET, 56) ^ _word(_SECRET, 64))


def _mix(data: bytes, position: int, secret: int) -> int:
    return _fold(
        _word(data, position) ^ _word(_SECRET, secret),
        _word(data, position + 8) ^ _word(_SECRET, secret + 8),
    )


def _up_to_128(data: bytes) -> int:
    length = len(data)
    value = length * _PRIME64_1
    for number in range((length - 1) // 32 + 1):
        value += _mix(data, 16 * number, 32 * number)
        value += _mix(data, length - 16 * (number + 1), 32 * number + 16)
    return _avalanche(value & _MASK)


def _up_to_240(data: bytes) -> int:
    length = len(data)
    value = length * _PRIME64_1
    for number in range(8):
        value += _mix(data, 16 * number, 16 * number)
    value = _avalanche(value & _MASK)
    for number in range(8, length // 16):
        value += _mix(data, 16 * number, 16 * (number - 8) + 3)
    value += _mix(data, length - 16, 136 - 17)
    return _avalanche(value & _MASK)


def _accumulate(lanes: list[int], data: bytes, position: int, secret: int) -> None:
    words = _lanes(data, position)
    keys = _lanes(_SECRET, secret)
    for number in range(8):
        word = words[number]
        key = word ^ keys[number]
        lanes[number ^ 1] += word
        lanes[number] += (key & _MASK32) * (key >> 32)
    lanes[:] = [each & _MASK for each in lanes]


def _scramble(lanes: list[int]) -> None:
    keys = _lanes(_SECRET, len(_SECRET) - _STRIPE)
    for number, lane in enumerate(lanes):
        lanes[number] = (lane ^ (lane >> 47) ^ keys[number]) * _PRIME32_1 & _MASK


def _long(data: bytes) -> int:
    lanes = [
        _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3,
        _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1,
    ]  # fmt: skip
    stripe_count = (len(data) - 1) // _STRIPE
    for stripe in range(stripe_count):
        of_block = stripe % _STRIPES_PER_BLOCK
        _accumulate(lanes, data, stripe * _STRIPE, of_block * _SECRET_STEP)
        if of_block == _STRIPES_PER_BLOCK - 1:
            _scramble(lanes)
    _accumulate(lanes, data, len(data) - _STRIPE, len(_SECRET) - _STRIPE - 7)
    value = len(data) * _PRIME64_1
    for number in range(4):
        value += _fold(
            lanes[2 * number] ^ _word(_SECRET, 11 + 16 * number),
            lanes[2 * number + 1] ^ _word(_SECRET, 19 + 16 * number),
        )
    return _avalanche(value & _MASK)
