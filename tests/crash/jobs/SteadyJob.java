import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An idempotent producer, a transactional producer, and a consumer of each group protocol, until the
 * input ends. The arguments are a file with settings of all clients, and a topic. Each error that a
 * client reports is one line "error ...". At the end every number must have been acknowledged, and
 * seen by each consumer once and in order. The last line is "end N".
 */
final class SteadyJob {
    private static final int PARTITIONS = 3;
    private static final Properties common = new Properties();
    private static final AtomicBoolean isProducing = new AtomicBoolean(true);
    private static final AtomicBoolean isConsuming = new AtomicBoolean(true);
    private static final AtomicLong acknowledged = new AtomicLong();
    private static final Map<String, AtomicLong> seen = Map.of("classic", new AtomicLong(), "consumer", new AtomicLong());

    public static void main(String[] words) throws Exception {
        try (InputStream file = Files.newInputStream(Path.of(words[0]))) {
            common.load(file);
        }
        String topic = words[1];
        List<Thread> producers = List.of(
            begin(() -> produce(topic, Map.of())),
            begin(() -> transact(topic + "-transactions")));
        List<Thread> consumers = List.of(
            begin(() -> consume(topic, "classic")), begin(() -> consume(topic, "consumer")));
        while (System.in.read() >= 0) {
            continue;
        }
        isProducing.set(false);
        for (Thread each : producers) {
            each.join();
        }
        for (AtomicLong each : seen.values()) {
            while (each.get() < acknowledged.get()) {
                Thread.sleep(20);
            }
        }
        isConsuming.set(false);
        for (Thread each : consumers) {
            each.join();
        }
        say("end " + acknowledged.get());
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> withCommon(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        common.forEach((name, value) -> all.put((String) name, value));
        return all;
    }

    private interface Work {
        void run() throws Exception;
    }

    private static Thread begin(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception error) {
                say("error " + error);
            }
        });
        thread.start();
        return thread;
    }

    private static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }

    private static KafkaProducer<String, Long> producer(Map<String, Object> more) {
        Map<String, Object> settings = withCommon(more);
        settings.put("linger.ms", "2");
        return new KafkaProducer<>(settings, new StringSerializer(), new LongSerializer());
    }

    private static void produce(String topic, Map<String, Object> more) throws Exception {
        try (KafkaProducer<String, Long> producer = producer(more)) {
            for (long number = 0; isProducing.get(); number++) {
                for (int partition = 0; partition < PARTITIONS; partition++) {
                    producer.send(new ProducerRecord<>(topic, partition, null, number), (metadata, error) -> {
                        if (error != null) {
                            say("error produce: " + error);
                        } else if (acknowledged.incrementAndGet() % 300 == 0) {
                            say("acknowledged " + acknowledged.get());
                        }
                    });
                }
                Thread.sleep(3);
            }
        }
    }

    private static void transact(String topic) throws Exception {
        try (KafkaProducer<String, Long> producer = producer(Map.of("transactional.id", "steady"))) {
            producer.initTransactions();
            for (long number = 0; isProducing.get(); number++) {
                producer.beginTransaction();
                for (int partition = 0; partition < PARTITIONS; partition++) {
                    producer.send(new ProducerRecord<>(topic, partition, null, number));
                }
                producer.commitTransaction();
                say("committed " + number);
                Thread.sleep(50);
            }
        }
    }

    private static void consume(String topic, String protocol) {
        Map<String, Object> settings = withCommon(Map.of(
            "group.id", "steady-" + protocol, "group.protocol", protocol,
            "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        Map<Integer, Long> next = new HashMap<>();
        long since = 0;
        try (KafkaConsumer<Long, Long> consumer = new KafkaConsumer<>(settings, new LongDeserializer(), new LongDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (isConsuming.get()) {
                for (ConsumerRecord<Long, Long> record : consumer.poll(Duration.ofMillis(100))) {
                    long wanted = next.getOrDefault(record.partition(), 0L);
                    if (record.value() != wanted || record.offset() != wanted) {
                        say("error " + protocol + " read " + record.value() + " at " + new TopicPartition(topic, record.partition())
                            + "-" + record.offset() + ", not " + wanted);
                    }
                    next.put(record.partition(), record.offset() + 1);
                    seen.get(protocol).incrementAndGet();
                    since++;
                }
                if (since > 300) {
                    since = 0;
                    consumer.commitSync();
                }
            }
        }
    }
}
