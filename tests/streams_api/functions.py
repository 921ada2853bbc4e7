"""The functions of random topologies, by the names that the classes in java/ has too."""

from __future__ import annotations

from odradek.streams import Windowed


def text(value):
    if value is None:
        return "~"
    if isinstance(value, Windowed):
        return f"{text(value.key)}@{value.start}-{value.end}"
    return str(value)


def hash_of(*values):
    total = 0
    for value in values:
        for each in text(value):
            total = (total * 7 + ord(each)) % 9973
    return total


def tail(whole):
    return whole[-10:]


def predicate(name):
    return {
        "p0": lambda key, value: hash_of(key, value) % 3 != 0,
        "p1": lambda key, value: hash_of(value) % 2 == 0,
        "p2": lambda key, value: hash_of(key) % 2 == 0,
    }[name]


def key_of(name):
    return {
        "k0": lambda key, value: text(value)[:1],
        "k1": lambda key, value: "x",
        "k2": lambda key, value: None if hash_of(key, value) % 5 == 0 else tail(text(key) + "'"),
        "k3": lambda key, value: tail(text(key)),
    }[name]


def value_of(name):
    return {
        "v0": lambda key, value: tail(text(value) + "a"),
        "v1": lambda key, value: None if hash_of(key, value) % 4 == 0 else tail(text(value)),
        "v2": lambda key, value: tail(text(key) + text(value)),
    }[name]


def values_of(name):
    def values(key, value):
        count = 3 if name == "f0" else hash_of(key, value) % 3
        return list(text(value)[:count])

    return values


def aggregator(name):
    return {
        "a0": lambda key, value, total: tail(text(total) + text(value)),
        "a1": lambda key, value, total: (
            None if hash_of(key, value, total) % 6 == 0 else tail(text(total) + text(value))
        ),
        "a2": lambda key, value, total: tail(text(value) + text(key)),
    }[name]


def reducer(name):
    def reduce(total, value):
        if name == "r1" and hash_of(total, value) % 6 == 0:
            return None
        return tail(text(total) + text(value))

    return reduce


def joiner(name):
    def join(left, right):
        if name == "j1" and hash_of(left, right) % 5 == 0:
            return None
        return tail(text(left) + "+" + text(right))

    return join


def foreign_key(value):
    return None if hash_of(value) % 5 == 0 else text(value)[:1]


def extract(key, value, context, time):
    choice = hash_of(value) % 5
    if choice == 0:
        return -1
    return max(0, time) if choice == 1 else context.timestamp + hash_of(value) % 7
