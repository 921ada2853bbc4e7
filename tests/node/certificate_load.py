"""Clients that write and read until they are told to stop. They count their failures."""

import threading

from confluent_kafka import Consumer, Producer

from odradek.client import producer as own_producer
from odradek.client.consuming.to_ends import assigned_consumer
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition

PAUSE_SECONDS = 0.005
TOPIC, OWN_TOPIC = "a", "own"
PARTITIONS = 3


class Load:
    """A client writes in a thread, and another one reads in another thread."""

    def __init__(self):
        self.sent = 0
        self.read = []
        self.failures = []
        self._stopping = threading.Event()
        self._is_written = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(each,))
            for each in (self._write_all, self._read)
        ]

    def start(self):
        for each in self._threads:
            each.start()

    def stop(self):
        """Wait until all records are written and read."""
        self._stopping.set()
        for each in self._threads:
            each.join()

    @property
    def is_complete(self):
        """Whether all records are read. The writer may still write when it is told to stop."""
        return self._is_written.is_set() and len(set(self.read)) >= self.sent

    def _write_all(self):
        self._write()
        self._is_written.set()

    def _run(self, work):
        try:
            work()
        except Exception as error:  # noqa: BLE001  whatever it is, it is reported
            self.failures.append(repr(error))
            self._stopping.set()

    def check(self):
        """Nobody saw an error, and each record was read once."""
        assert not self.failures, self.failures[:10]
        assert sorted(self.read) == list(range(self.sent))


class LibrdkafkaLoad(Load):
    """An idempotent producer with acks=all, and a member of a group."""

    def __init__(self, nodes):
        super().__init__()
        common = {
            "bootstrap.servers": nodes.bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            **nodes.client_settings,
        }
        self._producer = Producer({**common, "enable.idempotence": True, "linger.ms": 5})
        self._consumer = Consumer(
            {**common, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([TOPIC])

    def _write(self):
        while not self._stopping.wait(PAUSE_SECONDS):
            self._producer.produce(TOPIC, b"%d" % self.sent, on_delivery=self._delivered)
            self.sent += 1
            self._producer.poll(0)
        assert self._producer.flush(120) == 0

    def _delivered(self, error, message):
        if error is not None:
            self.failures.append(str(error))

    def _read(self):
        while not (self.is_complete or self.failures):
            record = self._consumer.poll(0.2)
            if record is None:
                continue
            if record.error() is not None:
                self.failures.append(str(record.error()))
            else:
                self.read.append(int(record.value()))
        self._consumer.close()


class OwnLoad(Load):
    """Our own clients, without a group."""

    def __init__(self, nodes):
        super().__init__()
        self._clusters = [nodes.client(), nodes.client()]

    def _write(self):
        with (
            self._clusters[0] as cluster,
            own_producer.Producer(cluster, on_batch=self._done) as producer,
        ):
            while not self._stopping.wait(PAUSE_SECONDS):
                producer.send(OWN_TOPIC, b"%d" % self.sent)
                self.sent += 1
                producer.poll()

    def _done(self, batch):
        if isinstance(batch.error, ClientError):
            self.failures.append(str(batch.error))

    def _read(self):
        with self._clusters[1] as cluster:
            starts = {TopicPartition(OWN_TOPIC, each): 0 for each in range(PARTITIONS)}
            with assigned_consumer(cluster, starts) as consumer:
                while not (self.is_complete or self.failures):
                    batch = consumer.poll(0.2)
                    if batch is not None:
                        self.read += map(int, batch.values())
