"""Attacks with connections and with incomplete requests."""

from __future__ import annotations

import struct

from tests.attacks.attack import (
    MEGABYTE,
    attack,
    chunks,
    closed_of,
    connect,
    frame,
    header,
    hold,
    is_closed,
    log_in,
    many,
    receive_frame,
    reset,
    send_quietly,
)
from tests.attacks.target import Victim

from odradek.wire.large_requests import ELEMENTS_MAX

METADATA, LIST_OFFSETS, PRODUCE, API_VERSIONS = 3, 2, 0, 18
HUGE = 2**31 - 1
FRAME_MAX = 104_857_600
"""The default of socket.request.max.bytes."""


@attack("connections that say nothing", count=10_000, growth_max_megabytes=120)
def silent(victim: Victim, count: int) -> None:
    with many(victim.port, count) as connections:
        hold(5)
        assert not closed_of(connections)


@attack("connections to SASL_SSL that say nothing", count=10_000, growth_max_megabytes=120)
def silent_secure(victim: Victim, count: int) -> None:
    with many(victim.ports["SASL_SSL"], count) as connections:
        hold(5)
        assert not closed_of(connections)


@attack("connections that are opened and reset at once", count=20_000, growth_max_megabytes=120)
def churn(victim: Victim, count: int) -> None:
    for size in chunks(count, 500):
        with many(victim.port, size) as connections:
            for each in connections:
                reset(each)


@attack("requests that arrive with one byte a second", count=3_000, growth_max_megabytes=100)
def one_byte_a_second(victim: Victim, count: int) -> None:
    request = frame(header(METADATA, 4) + struct.pack(">i", 1000) + b"x" * 3000)
    with many(victim.port, count) as connections:
        for position in range(15):
            for each in connections:
                assert send_quietly(each, request[position : position + 1])
            hold(1)


@attack("requests of 2 GB", count=10_000, growth_max_megabytes=60)
def huge_lengths(victim: Victim, count: int) -> None:
    announced = struct.pack(">i", HUGE) + header(PRODUCE, 9) + bytes(1000)
    for size in chunks(count, 100):
        with many(victim.port, size) as connections:
            for each in connections:
                send_quietly(each, announced)
            assert all(is_closed(each) for each in connections)


@attack("requests of 1 MB before authentication", count=10_000, growth_max_megabytes=60)
def long_before_authentication(victim: Victim, count: int) -> None:
    announced = struct.pack(">i", MEGABYTE) + header(API_VERSIONS, 0) + bytes(1000)
    for size in chunks(count, 100):
        with many(victim.ports["SASL_PLAINTEXT"], size) as connections:
            for each in connections:
                send_quietly(each, announced)
            assert all(is_closed(each) for each in connections)


@attack("requests of 2 GB after authentication", count=200, growth_max_megabytes=60)
def huge_after_authentication(victim: Victim, count: int) -> None:
    announced = struct.pack(">i", HUGE) + header(PRODUCE, 9) + bytes(1000)
    with many(victim.ports["SASL_PLAINTEXT"], count) as connections:
        for each in connections:
            log_in(each)
            send_quietly(each, announced)
        assert all(is_closed(each) for each in connections)


@attack("requests of 100 MB of which 1 KB arrives", count=5_000, growth_max_megabytes=150)
def short_parts(victim: Victim, count: int) -> None:
    part = struct.pack(">i", FRAME_MAX) + header(PRODUCE, 9) + bytes(1000)
    with many(victim.port, count) as connections:
        for each in connections:
            assert send_quietly(each, part)
        hold(3)


@attack("requests of 100 MB of which 2 MB arrive", count=100, growth_max_megabytes=600)
def long_parts(victim: Victim, count: int) -> None:
    part = struct.pack(">i", FRAME_MAX) + header(PRODUCE, 9) + bytes(2 * MEGABYTE)
    with many(victim.port, count) as connections:
        for each in connections:
            assert send_quietly(each, part)
        hold(3)


@attack("requests of 100 MB that consist of empty elements", count=3, growth_max_megabytes=700)
def empty_elements(victim: Victim, count: int) -> None:
    """ListOffsets with as many partitions as fit. Each array is not too long."""
    partitions = struct.pack(">hi", 0, 500_000) + bytes(12) * 500_000
    topics = (FRAME_MAX - 100) // len(partitions)
    body = header(LIST_OFFSETS, 1) + struct.pack(">ii", -1, topics) + partitions * topics
    for _ in range(count):
        with connect(victim.port) as connection:
            connection.settimeout(120)
            send_quietly(connection, frame(body))
            assert is_closed(connection)


@attack("requests with as many elements as are allowed", count=10, growth_max_megabytes=200)
def full_elements(victim: Victim, count: int) -> None:
    """ListOffsets of partitions that do not exist."""
    partitions = ELEMENTS_MAX - 1
    body = header(LIST_OFFSETS, 1) + struct.pack(">iihi", -1, 1, 0, partitions)
    request = frame(body + bytes(12) * partitions)
    with connect(victim.port) as connection:
        for _ in range(count):
            connection.sendall(request)
            receive_frame(connection)


@attack("many small requests whose responses nobody reads", count=500, growth_max_megabytes=900)
def unread_responses(victim: Victim, count: int) -> None:
    request = frame(header(METADATA, 4) + struct.pack(">i?", -1, False)) * 2000
    with many(victim.port, count) as connections:
        for each in connections:
            each.setblocking(False)
            send_quietly(each, request)
        hold(5)
