import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** One producer that stays open while its cluster loses nodes. */
final class FirstWrites {
    private static final byte[] VALUE = new byte[100];

    private KafkaProducer<byte[], byte[]> producer;
    private Thread steady;
    private volatile boolean stopping;
    private final AtomicInteger sent = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();

    ObjectNode open(JsonNode command) {
        producer = Load.producer(command, "acks", "all");
        return Lines.object();
    }

    ObjectNode close(JsonNode command) {
        producer.close(Duration.ZERO);
        return Lines.object();
    }

    /**
     * Writes one record to each of the first `partitions` of `topics`, and waits for `seconds` at
     * most. Answers with the number of partitions whose record was not acknowledged, the time of
     * the last acknowledgement, and the time when half of the partitions had one.
     */
    ObjectNode writeToAll(JsonNode command) throws Exception {
        List<TopicPartition> all = new ArrayList<>();
        command.get("topics").fields().forEachRemaining(each -> {
            for (int i = 0; i < each.getValue().asInt(); i++) {
                all.add(new TopicPartition(each.getKey(), i));
            }
        });
        long start = System.nanoTime();
        CountDownLatch left = new CountDownLatch(all.size());
        CountDownLatch half = new CountDownLatch((all.size() + 1) / 2);
        long[] nanos = new long[2];
        Thread sender = new Thread(() -> all.forEach(each -> producer.send(
            new ProducerRecord<>(each.topic(), each.partition(), null, VALUE), (metadata, error) -> {
                if (error == null) { // callbacks of one producer run in one thread
                    nanos[0] = System.nanoTime() - start;
                    half.countDown();
                    if (half.getCount() == 0 && nanos[1] == 0) {
                        nanos[1] = nanos[0];
                    }
                    left.countDown();
                }
            })));
        sender.setDaemon(true);
        sender.start();
        boolean done = left.await(command.get("seconds").asLong(), TimeUnit.SECONDS);
        ObjectNode answer = Lines.object().put("missing", left.getCount());
        if (half.getCount() == 0) {
            answer.put("half_seconds", nanos[1] / 1e9);
        }
        return done ? answer.put("seconds", nanos[0] / 1e9) : answer;
    }

    /** Begins to write a record to partition 0 of `topic` every `every_ms`. */
    ObjectNode begin(JsonNode command) {
        String topic = command.get("topic").asText();
        long pause = command.get("every_ms").asLong();
        stopping = false;
        sent.set(0);
        failed.set(0);
        steady = new Thread(() -> {
            while (!stopping) {
                sent.incrementAndGet();
                producer.send(new ProducerRecord<>(topic, 0, null, VALUE), (metadata, error) -> {
                    if (error != null) {
                        failed.incrementAndGet();
                    }
                });
                try {
                    Thread.sleep(pause);
                } catch (InterruptedException error) {
                    return;
                }
            }
        });
        steady.setDaemon(true);
        steady.start();
        return Lines.object();
    }

    /** Ends what `begin` has begun, and waits until every record has an answer. */
    ObjectNode end(JsonNode command) throws Exception {
        stopping = true;
        steady.join();
        producer.flush();
        return Lines.object().put("sent", sent.get()).put("failed", failed.get());
    }
}
