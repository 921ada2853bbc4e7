"""The processor of random topologies, as in the classes in java/."""

from __future__ import annotations

from tests.streams_api.functions import hash_of, tail, text

from odradek.streams import Processor, Record


class Counting(Processor):
    def __init__(self, store, interval, by_stream_time):
        self.name = store
        self.interval = interval
        self.by = "stream time" if by_stream_time else "clock"
        self.calls = 0

    def init(self, context):
        self.context = context
        self.counts = context.store(self.name)
        self.cancel = context.schedule(self.interval, self.punctuate, by=self.by)

    def process(self, record):
        key = text(record.key)
        before = self.counts.get(key)
        now = tail((before or "") + text(record.value))
        self.counts.put(key, now)
        if hash_of(record.key, record.value) % 4 == 0:
            self.counts.delete(key)
        headers = (*record.headers, ("n", bytes([len(now)])))
        self.context.forward(record.with_value(now).with_headers(headers))

    def punctuate(self, time):
        self.calls += 1
        for key, value in self.counts.all():
            self.context.forward(Record(key, tail(f"{value}#{self.calls}"), time))
        if self.calls == 4:
            self.cancel()
