import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Four loads at the same time, each at a steady rate: a producer, a group member that reads at the
 * tail and commits, a consumer that replays another topic, and commits of other groups. The amount of
 * work does not depend on the broker.
 */
final class MixedDay {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final int SAMPLED = 16;

    private final JsonNode command;
    private final int seconds;
    private final int records;
    private final long start = System.nanoTime();
    private final AtomicLong failures = new AtomicLong();

    private MixedDay(JsonNode command) {
        this.command = command;
        seconds = command.get("seconds").asInt();
        records = seconds * command.get("records_per_second").asInt();
    }

    static ObjectNode run(JsonNode command) throws Exception {
        return new MixedDay(command).run();
    }

    private ObjectNode run() throws Exception {
        List<Callable<Long>> parts = List.of(this::readTail, this::produce, this::replay, this::commit);
        ExecutorService threads = Executors.newFixedThreadPool(parts.size());
        long[] nanos = new long[records / SAMPLED];
        this.acknowledged = nanos;
        try {
            ExecutorCompletionService<Long> done = new ExecutorCompletionService<>(threads);
            parts.forEach(done::submit);
            for (int i = 0; i < parts.size(); i++) {
                done.take().get(); // the first failure is reported first
            }
        } finally {
            threads.shutdownNow();
        }
        Load.demand(failures.get() == 0, failures.get() + " records were not acknowledged");
        return Load.percentiles(Arrays.copyOf(nanos, nanos.length)).put("seconds", Load.seconds(start))
            .put("produced", produced).put("replayed", replayed).put("commits", commits);
    }

    private volatile long[] acknowledged;
    private volatile long produced;
    private volatile long replayed;
    private volatile long commits;

    private static void sleepUntil(long dueNs) throws InterruptedException {
        for (long left = dueNs - System.nanoTime(); left > 0; left = dueNs - System.nanoTime()) {
            Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
        }
    }

    /** In bursts, one each millisecond; each record counts from the moment at which its burst was due. */
    private Long produce() throws Exception {
        byte[][] payloads = Payloads.of(command);
        String topic = command.get("topic").asText();
        int burst = Math.max(1, records / (seconds * 1000));
        long bytes = 0;
        try (KafkaProducer<byte[], byte[]> producer = Load.producer(command, "linger.ms", "5")) {
            for (int i = 0; i < records; ) {
                long due = start + (long) (i * 1e9 * seconds / records);
                sleepUntil(due);
                for (int end = Math.min(records, i + burst); i < end; i++) {
                    byte[] value = payloads[i % payloads.length];
                    bytes += value.length;
                    int number = i;
                    producer.send(new ProducerRecord<>(topic, value), (metadata, error) -> {
                        if (error != null) {
                            failures.incrementAndGet();
                        } else if (number % SAMPLED == 0 && number / SAMPLED < acknowledged.length) {
                            acknowledged[number / SAMPLED] = System.nanoTime() - due;
                        }
                    });
                }
            }
            producer.flush();
        }
        produced = bytes;
        return bytes;
    }

    private Long readTail() {
        String topic = command.get("topic").asText();
        Map<String, String> group = Map.of("group.id", "tail-of-" + topic);
        long read = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = Load.consumer(command, group)) {
            consumer.subscribe(List.of(topic));
            while (read < records) {
                int count = consumer.poll(POLL).count();
                read += count;
                if (count > 0) {
                    consumer.commitAsync();
                }
                demandProgress("the tail", read, records);
            }
            consumer.commitSync();
        }
        return read;
    }

    private Long replay() throws Exception {
        double rate = command.get("replay_bytes_per_second").asDouble();
        String topic = command.get("replayed").asText();
        long bytes = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = Load.consumer(command, Map.of("max.poll.records", "5000"))) {
            List<TopicPartition> partitions = Load.partitions(consumer, topic);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (bytes < rate * seconds) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL);
                for (ConsumerRecord<byte[], byte[]> record : polled) {
                    bytes += record.value().length;
                }
                if (polled.isEmpty()) {
                    consumer.seekToBeginning(partitions);
                }
                sleepUntil(start + (long) (bytes / rate * 1e9));
                demandProgress("the replay", bytes, (long) (rate * seconds));
            }
        }
        replayed = bytes;
        return bytes;
    }

    private Long commit() throws Exception {
        int rate = command.get("commits_per_second").asInt();
        String topic = command.get("topic").asText();
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = Load.consumer(command, Map.of("group.id", "other-" + topic))) {
            consumer.assign(List.of(partition));
            for (long i = 0; i < (long) rate * seconds; i++) {
                sleepUntil(start + (long) (i * 1e9 / rate));
                consumer.commitSync(Map.of(partition, new OffsetAndMetadata(i)));
                commits = i + 1;
            }
        }
        return commits;
    }

    private void demandProgress(String what, long got, long wanted) {
        Load.demand(Load.seconds(start) < seconds * 4.0 + 60, what + " came to " + got + " of " + wanted + " only");
    }
}
