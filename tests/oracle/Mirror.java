// MirrorMaker 2: the bytes of its records, names of topics, the translation of offsets, and what a file of the
// dedicated mode means. Each line of the input has a command and words in Base64, between tabs; the output has one
// line each. Most of these classes can only be seen in their package, so they are called by reflection.

import java.io.*;
import java.lang.reflect.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.mirror.*;
import org.apache.kafka.connect.runtime.ConnectorConfig;

public class Mirror {
    static final String PACKAGE = "org.apache.kafka.connect.mirror.";

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            for (int i = 0; i < words.length; i++)
                words[i] = new String(Base64.getDecoder().decode(words[i]), StandardCharsets.UTF_8);
            String answer;
            try {
                answer = answer(words);
            } catch (Throwable error) {
                Throwable cause = error instanceof InvocationTargetException ? error.getCause() : error;
                answer = "!" + cause.getClass().getSimpleName() + " " + cause.getMessage();
            }
            out.println(answer.replace("\n", "\\n"));
        }
        out.flush();
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "record": return record(words);
            case "names": return names(words);
            case "flow": return flow(words);
            case "store": return store(words);
            case "queue": return queue(words);
            case "definitions": return definitions();
            case "validate": return validate(words);
            case "dedicated": return dedicated(words);
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    static Object call(Object object, String name, Object... given) throws Exception {
        for (Class<?> each = object.getClass(); each != null; each = each.getSuperclass())
            for (Method method : each.getDeclaredMethods())
                if (method.getName().equals(name) && method.getParameterCount() == given.length) {
                    method.setAccessible(true);
                    return method.invoke(object, given);
                }
        throw new NoSuchMethodException(name);
    }

    static void set(Object object, String name, Object value) throws Exception {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }

    static Object make(String name, int count, Object... given) throws Exception {
        for (Constructor<?> each : Class.forName(PACKAGE + name).getDeclaredConstructors())
            if (each.getParameterCount() == given.length && count-- == 0) {
                each.setAccessible(true);
                return each.newInstance(given);
            }
        throw new NoSuchMethodException(name);
    }

    static String hex(Object bytes) {
        return HexFormat.of().formatHex((byte[]) bytes);
    }

    static String record(String[] w) throws Exception {
        Object made;
        String partition = "";
        if (w[1].equals("sync")) {
            made = new OffsetSync(new TopicPartition(w[2], Integer.parseInt(w[3])), Long.parseLong(w[4]), Long.parseLong(w[5]));
            Method wrap = MirrorUtils.class.getDeclaredMethod("wrapPartition", TopicPartition.class, String.class);
            wrap.setAccessible(true);
            partition = json(wrap.invoke(null, new TopicPartition(w[2], Integer.parseInt(w[3])), "alias"));
        } else if (w[1].equals("checkpoint")) {
            made = new Checkpoint(w[2], new TopicPartition(w[3], Integer.parseInt(w[4])), Long.parseLong(w[5]), Long.parseLong(w[6]), w[7]);
            partition = json(call(made, "connectPartition"));
        } else {
            made = new Heartbeat(w[2], w[3], Long.parseLong(w[4]));
            partition = json(call(made, "connectPartition"));
        }
        return hex(call(made, "recordKey")) + " " + hex(call(made, "recordValue")) + " " + partition;
    }

    static String json(Object value) throws Exception {
        return new com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(value);
    }

    @SuppressWarnings("unchecked")
    static Map<String, String> map(String text) throws Exception {
        return new com.fasterxml.jackson.databind.ObjectMapper().readValue(text, Map.class);
    }

    static DefaultReplicationPolicy policy(String name, Map<String, String> config) {
        DefaultReplicationPolicy policy = name.equals("default") ? new DefaultReplicationPolicy() : new IdentityReplicationPolicy();
        policy.configure(config);
        return policy;
    }

    static String names(String[] w) throws Exception {
        DefaultReplicationPolicy policy = policy(w[1], map(w[2]));
        String topic = w[3];
        return String.join("|", policy.formatRemoteTopic("eu", topic), policy.topicSource(topic), policy.upstreamTopic(topic),
            policy.originalTopic(topic), policy.offsetSyncsTopic("eu"), policy.checkpointsTopic("eu"),
            policy.isHeartbeatsTopic(topic) + "", policy.isCheckpointsTopic(topic) + "", policy.isInternalTopic(topic) + "");
    }

    static String flow(String[] w) throws Exception {
        Map<String, String> config = map(w[2]);
        DefaultTopicFilter topics = new DefaultTopicFilter();
        topics.configure(config);
        DefaultGroupFilter groups = new DefaultGroupFilter();
        groups.configure(config);
        DefaultConfigPropertyFilter properties = new DefaultConfigPropertyFilter();
        properties.configure(config);
        Object connector = make("MirrorSourceConnector", 0, new SourceAndTarget("eu", "us"), policy(w[1], config), topics, properties,
            config.getOrDefault("heartbeats.replication.enabled", "true").equals("true"));
        return String.join("|", call(connector, "shouldReplicateTopic", w[3]) + "", groups.shouldReplicateGroup(w[3]) + "",
            properties.shouldReplicateConfigProperty(w[3]) + "");
    }

    static String store(String[] w) throws Exception {
        Object store = make("OffsetSyncStore", 0);
        set(store, "initializationMustReadToEnd", w[1].equals("true"));
        TopicPartition place = new TopicPartition("t", 0);
        StringBuilder found = new StringBuilder();
        for (String event : w[2].split(" ")) {
            String[] parts = event.split(":");
            if (parts[0].equals("end")) {
                set(store, "readToEnd", true);
            } else if (parts[0].equals("sync")) {
                OffsetSync sync = new OffsetSync(place, Long.parseLong(parts[1]), Long.parseLong(parts[2]));
                byte[] key = (byte[]) call(sync, "recordKey"), value = (byte[]) call(sync, "recordValue");
                call(store, "handleRecord", new ConsumerRecord<>("s", 0, 0, key, value));
            } else {
                OptionalLong at = (OptionalLong) call(store, "translateDownstream", "g", place, Long.parseLong(parts[1]));
                found.append(at.isPresent() ? at.getAsLong() + " " : "- ");
            }
        }
        for (int i = 0; i < 64; i++)
            found.append(((OffsetSync) call(store, "syncFor", place, i)).upstreamOffset()).append(i < 63 ? "," : "");
        return found.toString();
    }

    @SuppressWarnings("unchecked")
    static String queue(String[] w) throws Exception {
        Object writer = make("OffsetSyncWriter", 0, null, "s", new Semaphore(10), Long.parseLong(w[1]));
        StringBuilder found = new StringBuilder();
        for (String event : w[2].split(" ")) {
            String[] parts = event.split(":");
            if (parts[0].equals("copied")) {
                TopicPartition place = new TopicPartition("t", Integer.parseInt(parts[1]));
                call(writer, "maybeQueueOffsetSyncs", place, Long.parseLong(parts[2]), Long.parseLong(parts[3]));
            } else if (parts[0].equals("commit")) {
                call(writer, "promoteDelayedOffsetSyncs");
            } else {
                Map<TopicPartition, OffsetSync> due = (Map<TopicPartition, OffsetSync>) call(writer, "getPendingOffsetSyncs");
                for (OffsetSync each : due.values())
                    found.append(each.topicPartition().partition()).append(":").append(each.upstreamOffset()).append(":").append(each.downstreamOffset()).append(" ");
                due.clear();
                found.append("; ");
            }
        }
        return found.toString().trim();
    }

    static List<Connector> connectors() {
        return List.of(new MirrorSourceConnector(), new MirrorCheckpointConnector(), new MirrorHeartbeatConnector());
    }

    static String definitions() throws Exception {
        Set<String> base = ConnectorConfig.configDef().names();
        List<Object> found = new ArrayList<>();
        for (Connector connector : connectors())
            for (ConfigDef.ConfigKey key : connector.config().configKeys().values())
                if (!base.contains(key.name))
                    found.add(Arrays.asList(connector.getClass().getSimpleName(), key.name, key.type.name(), key.importance.name(),
                        key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "<required>"));
        return json(found);
    }

    static String validate(String[] w) throws Exception {
        Map<String, String> config = map(w[2]);
        Set<String> base = ConnectorConfig.configDef().names();
        Map<String, Object> found = new TreeMap<>();
        for (Connector connector : connectors())
            if (connector.getClass().getSimpleName().equals(w[1]))
                for (var each : connector.validate(config).configValues())
                    if (!each.errorMessages().isEmpty() && !base.contains(each.name()))
                        found.put(each.name(), each.errorMessages());
        return json(found);
    }

    static String dedicated(String[] w) throws Exception {
        Map<String, String> given = new HashMap<>(map(w[1]));
        given.put("plugin.discovery", "service_load"); // otherwise it reads all jars each time
        MirrorMakerConfig config = new MirrorMakerConfig(given);
        Map<String, Object> found = new TreeMap<>();
        for (SourceAndTarget pair : config.clusterPairs()) {
            found.put(pair + " worker", new TreeMap<>(config.workerConfig(pair)));
            for (Connector connector : connectors())
                found.put(pair + " " + connector.getClass().getSimpleName(), new TreeMap<>(config.connectorBaseConfig(pair, connector.getClass())));
        }
        return json(found);
    }
}
