import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Load for benchmarks, from one JVM that stays warm while brokers take turns. Every verb takes
 * `bootstrap`; client settings that a verb does not need to know come as `properties`.
 */
final class Load {
    private static final long SEED = 20_240_701;
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long PATIENCE_NS = 120_000_000_000L;

    private final Map<String, Admin> admins = new HashMap<>();

    public static void main(String[] args) throws Exception {
        Load load = new Load();
        FirstWrites first = new FirstWrites();
        Lines.serve(Map.ofEntries(
            Map.entry("run", Tools::run),
            Map.entry("create_topic", load::createTopic),
            Map.entry("configure_topic", load::configureTopic),
            Map.entry("delete_topic", load::deleteTopic),
            Map.entry("produce", load::produce),
            Map.entry("consume", load::consume),
            Map.entry("round_trips", load::roundTrips),
            Map.entry("paced", load::paced),
            Map.entry("fleet", load::fleet),
            Map.entry("open", first::open),
            Map.entry("write_to_all", first::writeToAll),
            Map.entry("begin", first::begin),
            Map.entry("end", first::end),
            Map.entry("close", first::close),
            Map.entry("mixed_day", MixedDay::run),
            Map.entry("transactions", Transactions::run)));
    }

    private Admin admin(JsonNode command) {
        String bootstrap = command.get("bootstrap").asText();
        return admins.computeIfAbsent(bootstrap, each -> Admin.create(Map.of("bootstrap.servers", each)));
    }

    private ObjectNode createTopic(JsonNode command) throws Exception {
        NewTopic topic = new NewTopic(command.get("topic").asText(), command.get("partitions").asInt(), (short) 1);
        admin(command).createTopics(List.of(topic.configs(texts(command, "settings")))).all().get();
        return Lines.object();
    }

    private ObjectNode configureTopic(JsonNode command) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, command.get("topic").asText());
        List<AlterConfigOp> changes = new ArrayList<>();
        texts(command, "settings").forEach((name, value) ->
            changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        admin(command).incrementalAlterConfigs(Map.of(topic, changes)).all().get();
        return Lines.object();
    }

    private ObjectNode deleteTopic(JsonNode command) throws Exception {
        admin(command).deleteTopics(List.of(command.get("topic").asText())).all().get();
        return Lines.object();
    }

    private static Map<String, String> texts(JsonNode command, String field) {
        Map<String, String> texts = new HashMap<>();
        command.path(field).fields().forEachRemaining(each -> texts.put(each.getKey(), each.getValue().asText()));
        return texts;
    }

    private static Map<String, Object> properties(JsonNode command) {
        Map<String, Object> properties = new HashMap<>(texts(command, "properties"));
        properties.put("bootstrap.servers", command.get("bootstrap").asText());
        return properties;
    }

    static KafkaProducer<byte[], byte[]> producer(JsonNode command, String name, String value) {
        Map<String, Object> properties = properties(command);
        properties.put(name, value);
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaProducer<byte[], byte[]> producer(JsonNode command) {
        return new KafkaProducer<>(properties(command), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(JsonNode command, Map<String, String> more) {
        Map<String, Object> properties = properties(command);
        properties.putAll(more);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode command) {
        return consumer(command, Map.of());
    }

    static double seconds(long startNs) {
        return (System.nanoTime() - startNs) / 1e9;
    }

    /** Sends the payloads again and again; the bytes of the values. */
    private static long send(KafkaProducer<byte[], byte[]> producer, JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        int records = command.get("records").asInt();
        int keys = command.path("keys").asInt(0);
        int partitions = command.path("partitions").asInt(0);
        byte[][] payloads = Payloads.of(command);
        SplittableRandom random = new SplittableRandom(SEED);
        AtomicReference<Exception> failure = new AtomicReference<>();
        long bytes = 0;
        for (int i = 0; i < records; i++) {
            byte[] key = keys == 0 ? null : ByteBuffer.allocate(8).putLong(random.nextInt(keys)).array();
            Integer partition = partitions == 0 ? null : Integer.valueOf(i % partitions);
            byte[] value = payloads[i % payloads.length];
            bytes += value.length;
            producer.send(new ProducerRecord<>(topic, partition, key, value), (metadata, error) -> {
                if (error != null) {
                    failure.compareAndSet(null, error);
                }
            });
        }
        producer.flush();
        if (failure.get() != null) {
            throw new IllegalStateException("a record was not acknowledged", failure.get());
        }
        return bytes;
    }

    /**
     * Sends `records` as fast as they are taken; every one must be acknowledged. `payloads` names a
     * file of values, without it they have `size` bytes. With `keys` each has one of so many keys,
     * with `partitions` they go to these in turn. Answers with the number of requests as well.
     */
    private ObjectNode produce(JsonNode command) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(command)) {
            producer.partitionsFor(command.get("topic").asText());
            double requests = requests(producer);
            long start = System.nanoTime();
            long bytes = send(producer, command);
            double seconds = seconds(start);
            return Lines.object().put("seconds", seconds).put("bytes", bytes)
                .put("requests", requests(producer) - requests);
        }
    }

    private static double requests(KafkaProducer<byte[], byte[]> producer) {
        return producer.metrics().entrySet().stream()
            .filter(each -> each.getKey().name().equals("request-total")
                && each.getKey().group().equals("producer-metrics"))
            .mapToDouble(each -> (Double) each.getValue().metricValue()).sum();
    }

    static List<TopicPartition> partitions(KafkaConsumer<byte[], byte[]> consumer, String topic) {
        List<TopicPartition> partitions = new ArrayList<>();
        consumer.partitionsFor(topic).forEach(info -> partitions.add(new TopicPartition(topic, info.partition())));
        return partitions;
    }

    /**
     * Reads `records` from `offset` of each partition (from its beginning if not given), in no group;
     * as fast as they come, or at `rate` bytes a second.
     */
    private ObjectNode consume(JsonNode command) throws InterruptedException {
        int records = command.get("records").asInt();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            List<TopicPartition> partitions = partitions(consumer, command.get("topic").asText());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            if (command.has("offset")) {
                partitions.forEach(each -> consumer.seek(each, command.get("offset").asLong()));
            }
            double rate = command.path("rate").asDouble(Double.POSITIVE_INFINITY);
            long start = System.nanoTime();
            int read = 0;
            long bytes = 0;
            while (read < records) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL);
                for (ConsumerRecord<byte[], byte[]> record : polled) {
                    bytes += record.value().length;
                }
                read += polled.count();
                Thread.sleep((long) Math.max(0, (bytes / rate - seconds(start)) * 1000));
                demand(System.nanoTime() - start < PATIENCE_NS, "only " + read + " records came");
            }
            return Lines.object().put("seconds", seconds(start)).put("bytes", bytes);
        }
    }

    static void demand(boolean condition, String complaint) {
        if (!condition) {
            throw new IllegalStateException(complaint);
        }
    }

    private static KafkaConsumer<byte[], byte[]> atEnd(JsonNode command) {
        KafkaConsumer<byte[], byte[]> consumer = consumer(command);
        List<TopicPartition> partitions = partitions(consumer, command.get("topic").asText());
        consumer.assign(partitions);
        consumer.seekToEnd(partitions);
        partitions.forEach(consumer::position);
        return consumer;
    }

    /** One record at a time: sent, acknowledged, received; the time of each from send to receipt. */
    private ObjectNode roundTrips(JsonNode command) throws Exception {
        int samples = command.get("samples").asInt();
        byte[] payload = Payloads.random(command.get("size").asInt())[0];
        String topic = command.get("topic").asText();
        long[] nanos = new long[samples];
        System.gc(); // not while it is timed
        try (KafkaProducer<byte[], byte[]> producer = producer(command);
                KafkaConsumer<byte[], byte[]> consumer = atEnd(command)) {
            for (int i = 0; i < samples; i++) {
                long start = System.nanoTime();
                producer.send(new ProducerRecord<>(topic, payload)).get();
                int read = 0;
                while (read == 0) {
                    read = consumer.poll(POLL).count();
                    demand(System.nanoTime() - start < PATIENCE_NS, "a record did not come");
                }
                demand(read == 1, read + " records came instead of one");
                nanos[i] = System.nanoTime() - start;
            }
        }
        return percentiles(nanos);
    }

    /**
     * Records at a steady `rate` a second; the time of each from its due moment to its receipt, and,
     * as `acknowledged`, to its acknowledgement.
     */
    private ObjectNode paced(JsonNode command) throws Exception {
        int samples = command.get("samples").asInt();
        int rate = command.get("rate").asInt();
        String topic = command.get("topic").asText();
        byte[] filling = Payloads.random(command.get("size").asInt())[0];
        long[] nanos = new long[samples];
        long[] acknowledged = new long[samples];
        ExecutorService reader = Executors.newSingleThreadExecutor();
        System.gc(); // not while it is timed
        try (KafkaProducer<byte[], byte[]> producer = producer(command);
                KafkaConsumer<byte[], byte[]> consumer = atEnd(command)) {
            Future<?> reading = reader.submit(() -> receive(consumer, nanos));
            long start = System.nanoTime();
            for (int i = 0; i < samples; i++) {
                long due = start + (long) (i * 1e9 / rate);
                for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                    Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
                }
                byte[] value = filling.clone();
                ByteBuffer.wrap(value).putLong(due);
                int number = i;
                producer.send(new ProducerRecord<>(topic, value), (metadata, error) ->
                    acknowledged[number] = error == null ? System.nanoTime() - due : Long.MAX_VALUE);
            }
            producer.flush();
            reading.get();
        } finally {
            reader.shutdownNow();
        }
        ObjectNode answer = percentiles(nanos);
        answer.set("acknowledged", percentiles(acknowledged));
        return answer;
    }

    private static void receive(KafkaConsumer<byte[], byte[]> consumer, long[] nanos) {
        long start = System.nanoTime();
        for (int read = 0; read < nanos.length; ) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                nanos[read++] = System.nanoTime() - ByteBuffer.wrap(record.value()).getLong();
            }
            demand(System.nanoTime() - start < PATIENCE_NS, "only " + read + " records came");
        }
    }

    static ObjectNode percentiles(long[] nanos) {
        long[] sorted = nanos.clone();
        Arrays.sort(sorted);
        ObjectNode answer = Lines.object();
        answer.put("p50_ms", sorted[sorted.length / 2] / 1e6);
        answer.put("p99_ms", sorted[(int) (sorted.length * 0.99)] / 1e6);
        answer.put("max_ms", sorted[sorted.length - 1] / 1e6);
        return answer;
    }

    /** So many producers and consumers at once, each pair on a topic's partition of its own. */
    private ObjectNode fleet(JsonNode command) throws Exception {
        int pairs = command.get("pairs").asInt();
        int records = command.get("records").asInt();
        int size = command.get("size").asInt();
        String topic = command.get("topic").asText();
        ExecutorService threads = Executors.newFixedThreadPool(2 * pairs);
        long start = System.nanoTime();
        try {
            ExecutorCompletionService<Void> parts = new ExecutorCompletionService<>(threads);
            for (int i = 0; i < pairs; i++) {
                TopicPartition partition = new TopicPartition(topic, i);
                parts.submit(() -> fleetConsumer(command, partition, records), null);
                parts.submit(() -> fleetProducer(command, partition, records, size), null);
            }
            for (int i = 0; i < 2 * pairs; i++) {
                parts.take().get(); // whoever fails first is heard first
            }
        } finally {
            threads.shutdownNow();
        }
        return Lines.object().put("seconds", seconds(start)).put("bytes", (long) pairs * records * size);
    }

    private static void fleetProducer(JsonNode command, TopicPartition partition, int records, int size) {
        byte[][] payloads = Payloads.random(size);
        try (KafkaProducer<byte[], byte[]> producer = producer(command)) {
            List<Future<?>> sent = new ArrayList<>();
            for (int i = 0; i < records; i++) {
                byte[] value = payloads[i % payloads.length];
                sent.add(producer.send(new ProducerRecord<>(partition.topic(), partition.partition(), null, value)));
            }
            producer.flush();
            for (Future<?> each : sent) {
                each.get();
            }
        } catch (InterruptedException | java.util.concurrent.ExecutionException error) {
            throw new IllegalStateException("a producer of " + partition + " failed", error);
        }
    }

    private static void fleetConsumer(JsonNode command, TopicPartition partition, int records) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long start = System.nanoTime();
            for (int read = 0; read < records; read += consumer.poll(POLL).count()) {
                demand(System.nanoTime() - start < PATIENCE_NS, partition + ": only " + read + " records came");
            }
        }
    }
}
