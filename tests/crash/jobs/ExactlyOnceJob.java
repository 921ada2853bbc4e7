import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A consume-transform-produce job. It ends when it cannot go on; begin it again. */
final class ExactlyOnceJob {
    public static void main(String[] words) {
        String bootstrap = words[0];
        String source = words[1];
        String target = words[2];
        String name = words[3];
        String recordsMax = words.length > 4 ? words[4] : "20";
        Map<String, Object> writing = Map.of(
            "bootstrap.servers", bootstrap, "transactional.id", name, "transaction.timeout.ms", "10000", "linger.ms", "0",
            "reconnect.backoff.ms", "20", "reconnect.backoff.max.ms", "100");
        Map<String, Object> reading = Map.of(
            "bootstrap.servers", bootstrap, "group.id", name, "group.instance.id", name, "max.poll.records", recordsMax,
            "isolation.level", "read_committed", "enable.auto.commit", "false", "auto.offset.reset", "earliest",
            "reconnect.backoff.ms", "20", "reconnect.backoff.max.ms", "100");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer());
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        try {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            while (true) {
                copy(consumer.poll(Duration.ofMillis(200)), producer, consumer, target);
            }
        } catch (RuntimeException error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1); // a producer that is closed would wait for its broker
        }
    }

    private static void copy(
            ConsumerRecords<byte[], byte[]> records, KafkaProducer<byte[], byte[]> producer, KafkaConsumer<byte[], byte[]> consumer, String target) {
        if (records.isEmpty()) {
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
            offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.commitTransaction();
    }
}
