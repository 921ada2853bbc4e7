import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The verbs of share consumers. */
final class ShareVerbs {
    private static final class Member {
        final KafkaShareConsumer<byte[], byte[]> consumer;
        final Map<Long, ConsumerRecord<byte[], byte[]>> polled = new HashMap<>();

        Member(KafkaShareConsumer<byte[], byte[]> consumer) {
            this.consumer = consumer;
        }
    }

    private final String bootstrap;
    private final Admin admin;
    private final Map<String, Member> members = new HashMap<>();

    ShareVerbs(String bootstrap, Admin admin) {
        this.bootstrap = bootstrap;
        this.admin = admin;
    }

    void register(Map<String, Lines.Verb> verbs) {
        verbs.put("alter_group", this::alterGroup);
        verbs.put("share_join", this::join);
        verbs.put("share_poll", this::poll);
        verbs.put("share_acknowledge", this::acknowledge);
        verbs.put("share_leave", this::leave);
    }

    private ObjectNode alterGroup(JsonNode command) throws Exception {
        ConfigResource group =
            new ConfigResource(ConfigResource.Type.GROUP, command.get("group").asText());
        List<AlterConfigOp> changes = new ArrayList<>();
        command.get("configs").fields().forEachRemaining(entry -> changes.add(new AlterConfigOp(
            new ConfigEntry(entry.getKey(), entry.getValue().asText()),
            AlterConfigOp.OpType.SET)));
        admin.incrementalAlterConfigs(Map.of(group, changes)).all().get();
        return Lines.object();
    }

    private ObjectNode join(JsonNode command) {
        Map<String, Object> properties = new HashMap<>();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", command.get("group").asText());
        command.get("configs").fields().forEachRemaining(
            entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        Member member = new Member(new KafkaShareConsumer<>(
            properties, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        member.consumer.subscribe(topics);
        members.put(command.get("member").asText(), member);
        return Lines.object();
    }

    private ObjectNode poll(JsonNode command) {
        Member member = members.get(command.get("member").asText());
        ObjectNode answer = Lines.object();
        ArrayNode found = answer.putArray("records");
        ConsumerRecords<byte[], byte[]> records =
            member.consumer.poll(Duration.ofMillis(command.get("timeout_ms").asLong()));
        for (ConsumerRecord<byte[], byte[]> record : records) {
            member.polled.put(record.offset(), record);
            ObjectNode told = found.addObject();
            told.put("partition", record.partition()).put("offset", record.offset());
            told.put("deliveries", record.deliveryCount().orElse((short) -1));
            told.put("value", Base64.getEncoder().encodeToString(record.value()));
        }
        return answer;
    }

    private ObjectNode acknowledge(JsonNode command) {
        Member member = members.get(command.get("member").asText());
        command.get("types").fields().forEachRemaining(entry -> {
            ConsumerRecord<byte[], byte[]> record = member.polled.get(Long.parseLong(entry.getKey()));
            member.consumer.acknowledge(record, AcknowledgeType.valueOf(entry.getValue().asText()));
        });
        ObjectNode answer = Lines.object();
        ArrayNode errors = answer.putArray("errors");
        Map<TopicIdPartition, Optional<KafkaException>> results = member.consumer.commitSync();
        results.forEach((partition, error) ->
            error.ifPresent(each -> errors.add(each.getClass().getSimpleName())));
        return answer;
    }

    private ObjectNode leave(JsonNode command) {
        members.remove(command.get("member").asText()).consumer.close();
        return Lines.object();
    }
}
