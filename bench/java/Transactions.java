import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Many producers that commit small transactions at a steady rate. */
final class Transactions {
    private final JsonNode command;
    private final int producers;
    private final int transactions;
    private final int records;
    private final int partitions;
    private final double rate;
    private final byte[] payload;
    private final long[] nanos;

    private Transactions(JsonNode command) {
        this.command = command;
        producers = command.get("producers").asInt();
        transactions = command.get("transactions").asInt() / producers * producers;
        records = command.get("records").asInt();
        partitions = command.get("partitions").asInt();
        rate = command.get("rate").asDouble();
        payload = new byte[command.get("size").asInt()];
        nanos = new long[transactions];
    }

    /**
     * `transactions` of `records` each, spread over `partitions`, `rate` a second by all `producers`
     * together; the time of each from its due moment to the answer to its commit.
     */
    static ObjectNode run(JsonNode command) throws Exception {
        return new Transactions(command).run();
    }

    private ObjectNode run() throws Exception {
        List<KafkaProducer<byte[], byte[]>> all = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(producers);
        try {
            for (int i = 0; i < producers; i++) {
                all.add(initialized());
            }
            ExecutorCompletionService<Void> parts = new ExecutorCompletionService<>(threads);
            long start = System.nanoTime();
            for (int i = 0; i < producers; i++) {
                int first = i;
                parts.submit(() -> commitAll(all.get(first), first, start), null);
            }
            for (int i = 0; i < producers; i++) {
                parts.take().get(); // whoever fails first is heard first
            }
            double seconds = (System.nanoTime() - start) / 1e9;
            return Load.percentiles(nanos).put("seconds", seconds).put("transactions", transactions);
        } finally {
            threads.shutdownNow();
            all.forEach(KafkaProducer::close);
        }
    }

    private KafkaProducer<byte[], byte[]> initialized() {
        KafkaProducer<byte[], byte[]> producer = Load.producer(command, "transactional.id", UUID.randomUUID().toString());
        producer.initTransactions();
        return producer;
    }

    private void commitAll(KafkaProducer<byte[], byte[]> producer, int first, long start) {
        String topic = command.get("topic").asText();
        try {
            for (int i = first; i < transactions; i += producers) {
                long due = start + (long) (i * 1e9 / rate);
                for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                    Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
                }
                producer.beginTransaction();
                for (int record = 0; record < records; record++) {
                    producer.send(new ProducerRecord<>(topic, record % partitions, null, payload));
                }
                producer.commitTransaction();
                nanos[i] = System.nanoTime() - due;
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException("a producer was interrupted", error);
        }
    }
}
