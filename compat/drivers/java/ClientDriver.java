import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Apache Kafka's Java client as a driver; the verbs are described in compat/drivers/README.md. */
final class ClientDriver {
    private static final int VALUE_SHOWN_MAX = 4096;
    private static final int REQUEST_BYTES_MAX = 64 << 20;

    private final String bootstrap;
    private final Admin admin;
    private final Map<String, Member> members = new HashMap<>();
    private final List<KafkaProducer<byte[], byte[]>> transactional = new ArrayList<>();

    private static final class Member {
        final KafkaConsumer<byte[], byte[]> consumer;
        final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();

        Member(KafkaConsumer<byte[], byte[]> consumer) {
            this.consumer = consumer;
        }
    }

    private ClientDriver(String bootstrap) {
        this.bootstrap = bootstrap;
        Map<String, Object> properties = connection();
        properties.put("default.api.timeout.ms", 40000);
        this.admin = Admin.create(properties);
    }

    /** The settings of each client. The environment variable CLIENT_PROPERTIES may name a file with more. */
    private Map<String, Object> connection() {
        Properties given = new Properties();
        String file = System.getenv("CLIENT_PROPERTIES");
        if (file != null) {
            try (Reader reader = Files.newBufferedReader(Path.of(file))) {
                given.load(reader);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
        Map<String, Object> properties = new HashMap<>();
        for (String name : given.stringPropertyNames()) {
            properties.put(name, given.getProperty(name));
        }
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    public static void main(String[] args) throws Exception {
        ClientDriver driver = new ClientDriver(args[0]);
        Map<String, Lines.Verb> verbs = new HashMap<>();
        verbs.put("about", driver::about);
        verbs.put("create_topic", driver::createTopic);
        verbs.put("delete_topic", driver::deleteTopic);
        verbs.put("add_partitions", driver::addPartitions);
        verbs.put("topics", driver::topics);
        verbs.put("partitions", driver::partitions);
        verbs.put("describe_topic", driver::describeTopic);
        verbs.put("alter_topic", driver::alterTopic);
        verbs.put("delete_records", driver::deleteRecords);
        verbs.put("offset", driver::offset);
        verbs.put("produce", driver::produce);
        verbs.put("produce_empty", driver::produceEmpty);
        verbs.put("read", driver::read);
        verbs.put("transact", driver::transact);
        verbs.put("join", driver::join);
        verbs.put("poll", driver::poll);
        verbs.put("commit", driver::commit);
        verbs.put("leave", driver::leave);
        verbs.put("committed", driver::committed);
        verbs.put("groups", driver::groups);
        verbs.put("delete_group", driver::deleteGroup);
        verbs.put("login", Login::run);
        new Sessions().register(verbs);
        new ShareVerbs(driver.bootstrap, driver.admin).register(verbs);
        Lines.serve(verbs);
    }

    private ObjectNode about(JsonNode command) throws IOException {
        Properties properties = new Properties();
        String name = "/kafka/kafka-version.properties";
        try (InputStream file = ClientDriver.class.getResourceAsStream(name)) {
            properties.load(file);
        }
        String version = properties.getProperty("version");
        return Lines.object().put("client", "Java").put("version", version);
    }

    private ObjectNode createTopic(JsonNode command) throws Exception {
        Map<String, String> configs = new HashMap<>();
        command.path("configs").fields().forEachRemaining(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        NewTopic topic = new NewTopic(command.get("topic").asText(), command.get("partitions").asInt(), (short) 1);
        admin.createTopics(List.of(topic.configs(configs))).all().get();
        return Lines.object();
    }

    private ObjectNode deleteTopic(JsonNode command) throws Exception {
        admin.deleteTopics(List.of(command.get("topic").asText())).all().get();
        return Lines.object();
    }

    private ObjectNode addPartitions(JsonNode command) throws Exception {
        NewPartitions total = NewPartitions.increaseTo(command.get("total").asInt());
        admin.createPartitions(Map.of(command.get("topic").asText(), total)).all().get();
        return Lines.object();
    }

    private ObjectNode topics(JsonNode command) throws Exception {
        ObjectNode answer = Lines.object();
        ArrayNode names = answer.putArray("topics");
        admin.listTopics().names().get().forEach(names::add);
        return answer;
    }

    private ObjectNode partitions(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        int count = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
        return Lines.object().put("partitions", count);
    }

    private static ConfigResource resource(JsonNode command) {
        return new ConfigResource(ConfigResource.Type.TOPIC, command.get("topic").asText());
    }

    private ObjectNode describeTopic(JsonNode command) throws Exception {
        ConfigResource resource = resource(command);
        ObjectNode answer = Lines.object();
        ObjectNode configs = answer.putObject("configs");
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            configs.put(entry.name(), entry.value());
        }
        return answer;
    }

    private ObjectNode alterTopic(JsonNode command) throws Exception {
        ConfigEntry entry = new ConfigEntry(command.get("name").asText(), command.get("value").asText());
        AlterConfigOp set = new AlterConfigOp(entry, AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource(command), List.of(set))).all().get();
        return Lines.object();
    }

    private static TopicPartition partition(JsonNode command) {
        return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    }

    private ObjectNode deleteRecords(JsonNode command) throws Exception {
        RecordsToDelete before = RecordsToDelete.beforeOffset(command.get("offset").asLong());
        admin.deleteRecords(Map.of(partition(command), before)).all().get();
        return Lines.object();
    }

    private ObjectNode offset(JsonNode command) throws Exception {
        String at = command.get("at").asText();
        OffsetSpec spec = switch (at) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            default -> OffsetSpec.forTimestamp(Long.parseLong(at));
        };
        long found = admin.listOffsets(Map.of(partition(command), spec)).partitionResult(partition(command)).get().offset();
        ObjectNode answer = Lines.object();
        return found < 0 ? answer.putNull("offset") : answer.put("offset", found);
    }

    private ObjectNode produce(JsonNode command) throws Exception {
        Map<String, Object> properties = connection();
        properties.put("compression.type", command.path("codec").asText("none"));
        properties.put("acks", command.path("acks").asText("-1"));
        properties.put("enable.idempotence", command.path("idempotent").asBoolean(false));
        properties.put("max.request.size", REQUEST_BYTES_MAX);
        properties.put("buffer.memory", 2L * REQUEST_BYTES_MAX);
        properties.put("linger.ms", 20);
        properties.put("delivery.timeout.ms", 30000);
        properties.put("request.timeout.ms", 15000);
        ObjectNode answer = Lines.object();
        ArrayNode offsets = answer.putArray("offsets");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : command.get("records")) {
                sent.add(producer.send(toWrite(command.get("topic").asText(), record)));
            }
            for (Future<RecordMetadata> future : sent) {
                RecordMetadata metadata = future.get();
                if (metadata.hasOffset()) {
                    offsets.add(metadata.offset());
                } else {
                    offsets.addNull();
                }
            }
        }
        return answer;
    }

    private ObjectNode produceEmpty(JsonNode command) throws Exception {
        throw new Lines.UnsupportedVerb("the Java producer makes no batch without a record");
    }

    private static ProducerRecord<byte[], byte[]> toWrite(String topic, JsonNode record) {
        JsonNode value = record.get("value");
        byte[] bytes;
        if (value.isObject()) {
            bytes = new byte[value.get("fill").asInt()];
            Arrays.fill(bytes, (byte) 'x');
        } else {
            bytes = decoded(value);
        }
        Long timestamp = record.path("timestamp").isNumber() ? record.get("timestamp").asLong() : null;
        ProducerRecord<byte[], byte[]> made =
            new ProducerRecord<>(topic, record.get("partition").asInt(), timestamp, decoded(record.get("key")), bytes);
        record.path("headers").forEach(header -> made.headers().add(header.get(0).asText(), decoded(header.get(1))));
        return made;
    }

    private static byte[] decoded(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String encoded(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static void addRead(ArrayNode records, ConsumerRecord<byte[], byte[]> record) throws Exception {
        ObjectNode read = records.addObject();
        read.put("topic", record.topic()).put("partition", record.partition()).put("offset", record.offset());
        read.put("timestamp", record.timestamp()).put("key", encoded(record.key()));
        if (record.value() != null && record.value().length > VALUE_SHOWN_MAX) {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(record.value());
            read.putObject("value").put("size", record.value().length).put("sha256", HexFormat.of().formatHex(digest));
        } else {
            read.put("value", encoded(record.value()));
        }
        ArrayNode headers = read.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(encoded(header.value()));
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
        Map<String, Object> properties = connection();
        properties.putAll(more);
        properties.put("enable.auto.commit", false);
        properties.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private ObjectNode read(JsonNode command) throws Exception {
        List<TopicPartition> wanted = new ArrayList<>();
        command.get("partitions").forEach(p -> wanted.add(new TopicPartition(command.get("topic").asText(), p.asInt())));
        ObjectNode answer = Lines.object();
        ArrayNode records = answer.putArray("records");
        String isolation = command.path("committed").asBoolean(false) ? "read_committed" : "read_uncommitted";
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("isolation.level", isolation))) {
            consumer.assign(wanted);
            wanted.forEach(partition -> consumer.seek(partition, command.path("from").asLong(0)));
            collect(consumer, records, command.get("count").asInt(), command.get("timeout_ms").asLong(), null);
        }
        return answer;
    }

    private static void collect(
            KafkaConsumer<byte[], byte[]> consumer, ArrayNode records, int count, long timeoutMs, Member member)
            throws Exception {
        long deadline = System.nanoTime() + timeoutMs * 1_000_000;
        do {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(Math.min(100, timeoutMs)))) {
                addRead(records, record);
                if (member != null) {
                    TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                    member.positions.put(partition, new OffsetAndMetadata(record.offset() + 1));
                }
            }
        } while (records.size() < count && System.nanoTime() < deadline);
    }

    private ObjectNode transact(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        Map<String, Object> properties = Map.of("bootstrap.servers", bootstrap, "transactional.id", command.get("id").asText());
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
        transactional.add(producer); // one that is closed would abort what is open
        producer.initTransactions();
        producer.beginTransaction();
        for (JsonNode record : command.get("records")) {
            producer.send(toWrite(topic, record)).get();
        }
        if (command.get("group").isTextual()) {
            Map<TopicPartition, OffsetAndMetadata> offsets =
                Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(command.get("offset").asLong()));
            producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(command.get("group").asText()));
        }
        switch (command.get("end").asText()) {
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> { }
        }
        return Lines.object();
    }

    private ObjectNode join(JsonNode command) {
        Map<String, Object> properties = new HashMap<>();
        properties.put("group.id", command.get("group").asText());
        String strategy = command.path("strategy").asText("range");
        if (strategy.equals("server")) {
            properties.put("group.protocol", "consumer");
        } else {
            properties.put("session.timeout.ms", 10000);
            properties.put("heartbeat.interval.ms", 500);
            properties.put("partition.assignment.strategy", switch (strategy) {
                case "cooperative-sticky" -> "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
                default -> "org.apache.kafka.clients.consumer.RangeAssignor";
            });
        }
        if (command.path("instance").isTextual()) {
            properties.put("group.instance.id", command.get("instance").asText());
        }
        Member member = new Member(consumer(properties));
        if (command.path("pattern").isTextual()) {
            member.consumer.subscribe(new SubscriptionPattern(command.get("pattern").asText()));
        } else {
            List<String> topics = new ArrayList<>();
            command.get("topics").forEach(topic -> topics.add(topic.asText()));
            member.consumer.subscribe(topics);
        }
        members.put(command.get("member").asText(), member);
        return Lines.object();
    }

    private ObjectNode poll(JsonNode command) throws Exception {
        Member member = members.get(command.get("member").asText());
        ObjectNode answer = Lines.object();
        collect(member.consumer, answer.putArray("records"), command.get("count").asInt(), command.get("timeout_ms").asLong(), member);
        ArrayNode assignment = answer.putArray("assignment");
        member.consumer.assignment().forEach(partition -> assignment.add(partition.toString()));
        return answer;
    }

    private ObjectNode commit(JsonNode command) {
        Member member = members.get(command.get("member").asText());
        Map<TopicPartition, OffsetAndMetadata> owned = new HashMap<>(member.positions);
        owned.keySet().retainAll(member.consumer.assignment());
        member.consumer.commitSync(owned);
        return Lines.object();
    }

    private ObjectNode leave(JsonNode command) {
        members.remove(command.get("member").asText()).consumer.close();
        return Lines.object();
    }

    private ObjectNode committed(JsonNode command) throws Exception {
        ObjectNode answer = Lines.object();
        Map<Integer, Long> sorted = new TreeMap<>();
        admin.listConsumerGroupOffsets(command.get("group").asText()).partitionsToOffsetAndMetadata().get().forEach((partition, offset) -> {
            if (offset != null && partition.topic().equals(command.get("topic").asText())) {
                sorted.put(partition.partition(), offset.offset());
            }
        });
        ObjectNode offsets = answer.putObject("offsets");
        sorted.forEach((partition, offset) -> offsets.put(String.valueOf(partition), offset));
        return answer;
    }

    private ObjectNode groups(JsonNode command) throws Exception {
        ObjectNode answer = Lines.object();
        ArrayNode names = answer.putArray("groups");
        admin.listGroups().all().get().forEach(group -> names.add(group.groupId()));
        return answer;
    }

    private ObjectNode deleteGroup(JsonNode command) throws ExecutionException, InterruptedException {
        admin.deleteConsumerGroups(Set.of(command.get("group").asText())).all().get();
        return Lines.object();
    }
}
