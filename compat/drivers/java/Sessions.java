import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The verbs of clients that stay connected for longer than a session of SASL lasts. */
final class Sessions {
    private static final long READ_MS = 30_000;

    private final List<Session> open = new ArrayList<>();

    private static final class Session {
        final TopicPartition partition;
        final KafkaProducer<String, String> producer;
        final KafkaConsumer<String, String> consumer;

        Session(JsonNode login) {
            partition = new TopicPartition(login.get("topic").asText(), 0);
            Map<String, Object> settings = Login.settings(login);
            settings.put("linger.ms", 0);
            settings.put("delivery.timeout.ms", login.get("timeout_ms").asInt());
            producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
            settings.keySet().removeAll(List.of("linger.ms", "delivery.timeout.ms"));
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            consumer.assign(List.of(partition));
        }

        /** Writes a record, and reads until it is there. */
        void step(boolean isFirst) throws ExecutionException, InterruptedException {
            long offset = producer.send(new ProducerRecord<>(partition.topic(), 0, null, "x")).get().offset();
            if (isFirst) {
                consumer.seek(partition, offset);
            }
            long end = System.nanoTime() + READ_MS * 1_000_000;
            while (System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.offset() == offset) {
                        return;
                    }
                }
            }
            throw new IllegalStateException("the record was not read");
        }
    }

    void register(Map<String, Lines.Verb> verbs) {
        verbs.put("open_sessions", this::begin);
        verbs.put("use_sessions", this::use);
        verbs.put("close_sessions", this::end);
    }

    private ObjectNode begin(JsonNode command) throws Exception {
        for (JsonNode login : command.get("logins")) {
            Session session = new Session(login);
            open.add(session);
            session.step(true);
        }
        return Lines.object();
    }

    private ObjectNode use(JsonNode command) throws InterruptedException {
        long end = System.nanoTime() + command.get("for_ms").asLong() * 1_000_000;
        ObjectNode answer = Lines.object();
        ArrayNode used = answer.putArray("used");
        List<ObjectNode> found = new ArrayList<>();
        open.forEach(session -> found.add(used.addObject().put("records", 0)));
        found.forEach(each -> each.putArray("said"));
        while (System.nanoTime() < end) {
            for (int index = 0; index < open.size(); index++) {
                ObjectNode each = found.get(index);
                if (each.get("said").isEmpty()) {
                    step(open.get(index), each);
                }
            }
            Thread.sleep(50);
        }
        return answer;
    }

    private static void step(Session session, ObjectNode found) throws InterruptedException {
        try {
            session.step(false);
            found.put("records", found.get("records").asInt() + 1);
        } catch (ExecutionException error) {
            Login.add((ArrayNode) found.get("said"), error.getCause());
        } catch (RuntimeException error) {
            Login.add((ArrayNode) found.get("said"), error);
        }
    }

    private ObjectNode end(JsonNode command) {
        for (Session session : open) {
            session.producer.close(Duration.ZERO);
            try {
                session.consumer.close();
            } catch (KafkaException error) {
                System.err.println("a consumer whose credentials are refused: " + error);
            }
        }
        open.clear();
        return Lines.object();
    }
}
