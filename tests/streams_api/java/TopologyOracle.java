// Builds topologies with Kafka Streams' DSL, and pipes records through its TopologyTestDriver.
//
// Each line of the input is a JSON object (see oracle.py); each line of the output is the answer: the
// text of the topology, and for each step the records of each topic, in hexadecimal; with `wire`, what a
// Streams group is told of the topology. The functions of
// the topologies are those of functions.py, by name.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.test.TestRecord;

@SuppressWarnings({"unchecked", "rawtypes"})
public class TopologyOracle extends Operators {
    static final ObjectMapper JSON = new ObjectMapper();

    static String hex(byte[] data) {
        if (data == null) return null;
        StringBuilder out = new StringBuilder();
        for (byte each : data) out.append(String.format("%02x", each));
        return out.toString();
    }

    static ObjectNode outputs(TopologyTestDriver driver, Map<String, TestOutputTopic<byte[], byte[]>> topics) {
        ObjectNode found = JSON.createObjectNode();
        for (String topic : driver.producedTopicNames()) {
            TestOutputTopic<byte[], byte[]> output = topics.computeIfAbsent(topic, each ->
                driver.createOutputTopic(each, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
            if (output.isEmpty()) continue;
            ArrayNode records = found.putArray(topic);
            for (TestRecord<byte[], byte[]> record : output.readRecordsToList()) {
                ArrayNode row = records.addArray();
                row.add(hex(record.key()));
                row.add(hex(record.value()));
                row.add(record.timestamp());
                ArrayNode headers = row.addArray();
                for (Header header : record.headers()) headers.addArray().add(header.key()).add(hex(header.value()));
            }
        }
        return found;
    }

    static ObjectNode run(JsonNode request) throws Exception {
        JsonNode settings = request.get("settings");
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, number(settings, "cache"));
        config.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, number(settings, "idle"));
        config.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("state.dir"));
        config.put("__emit.interval.ms.kstreams.windowed.aggregation__", number(settings, "emit"));
        config.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", number(settings, "emit"));
        if (settings.get("in_memory").asBoolean())
            config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
                BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        String optimize = settings.get("optimize").asText();
        if (!optimize.equals("none")) config.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, optimize);
        ObjectNode answer = JSON.createObjectNode();
        StreamsBuilder builder = new StreamsBuilder();
        build(builder, request.get("topology"));
        Topology topology = builder.build(config);
        answer.put("describe", topology.describe().toString());
        if (request.has("wire")) {
            answer.set("wire", WireTopology.of(topology, config));
            return answer;
        }
        ArrayNode steps = answer.putArray("steps");
        Map<String, TestOutputTopic<byte[], byte[]>> outputs = new TreeMap<>();
        Map<String, TestInputTopic<byte[], byte[]>> inputs = new TreeMap<>();
        if (request.get("history").isEmpty()) return answer;
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, config, java.time.Instant.ofEpochMilli(0))) {
            for (JsonNode step : request.get("history")) {
                if (step.size() == 1) {
                    driver.advanceWallClockTime(Duration.ofMillis(step.get(0).asLong()));
                } else {
                    TestInputTopic<byte[], byte[]> input = inputs.computeIfAbsent(step.get(0).asText(), each ->
                        driver.createInputTopic(each, new ByteArraySerializer(), new ByteArraySerializer()));
                    RecordHeaders headers = new RecordHeaders();
                    for (JsonNode header : step.get(4))
                        headers.add(header.asText(), header.asText().getBytes(StandardCharsets.UTF_8));
                    input.pipeInput(new TestRecord<>(bytes(step.get(1)), bytes(step.get(2)), headers, step.get(3).asLong()));
                }
                steps.add(outputs(driver, outputs));
            }
        }
        return answer;
    }

    static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer;
            try {
                answer = run(JSON.readTree(line));
            } catch (Exception | StackOverflowError error) {
                answer = JSON.createObjectNode();
                Throwable cause = error;
                StringBuilder text = new StringBuilder();
                while (cause != null) {
                    text.append(cause.getClass().getSimpleName()).append(": ").append(cause.getMessage()).append("; ");
                    cause = cause.getCause();
                }
                answer.put("error", text.toString());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }
}
