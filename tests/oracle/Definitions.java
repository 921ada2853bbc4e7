// The definitions of all settings of Apache Kafka, one a line, tab-separated:
//   KIND name type default valid importance internal text     KIND: broker, topic, group, metrics
//   mode name MODE                                       how a broker's setting can be changed
//   synonym topic-setting broker-setting factor
// With the argument "check": for each line `KIND name value` of the input `true` if it is valid.

import java.io.*;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;

public class Definitions {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        Map<String, ConfigDef> kinds = new LinkedHashMap<>();
        kinds.put("broker", made("kafka.server.KafkaConfig", "configDef"));
        kinds.put("quota", made("org.apache.kafka.server.config.QuotaConfig", "brokerQuotaConfigs"));
        kinds.put("topic", made("org.apache.kafka.storage.internals.log.LogConfig", "configDefCopy"));
        kinds.put("group", (ConfigDef) Class.forName("org.apache.kafka.coordinator.group.GroupConfig")
            .getField("CONFIG_DEF").get(null));
        kinds.put("metrics", made("org.apache.kafka.server.metrics.ClientMetricsConfigs", "configDef"));
        if (arguments.length > 0) {
            Scanner lines = new Scanner(System.in, "UTF-8").useDelimiter("\n");
            while (lines.hasNext()) {
                String[] row = lines.next().split("\t", -1);
                out.println(isValid(kinds.get(row[0]), row[1], row[2]));
            }
            out.flush();
            return;
        }
        kinds.forEach((kind, definitions) -> dump(out, kind.replace("quota", "broker"), definitions));
        Class<?> dynamic = Class.forName("org.apache.kafka.server.config.DynamicBrokerConfig");
        Map<?, ?> modes = (Map<?, ?>) dynamic.getMethod("dynamicConfigUpdateModes").invoke(null);
        modes.forEach((name, mode) -> out.println("mode\t" + name + "\t" + mode));
        Map<?, ?> synonyms = (Map<?, ?>) Class.forName("org.apache.kafka.server.config.ServerTopicConfigSynonyms")
            .getField("ALL_TOPIC_CONFIG_SYNONYMS").get(null);
        for (Map.Entry<?, ?> entry : synonyms.entrySet())
            for (Object synonym : (List<?>) entry.getValue()) {
                Object name = synonym.getClass().getMethod("name").invoke(synonym);
                Object convert = synonym.getClass().getMethod("converter").invoke(synonym);
                @SuppressWarnings("unchecked")
                String factor = ((java.util.function.Function<String, String>) convert).apply("1");
                out.println("synonym\t" + entry.getKey() + "\t" + name + "\t" + factor);
            }
        out.flush();
    }

    static ConfigDef made(String type, String method) throws Exception {
        return (ConfigDef) Class.forName(type).getMethod(method).invoke(null);
    }

    static boolean isValid(ConfigDef definitions, String name, String value) {
        ConfigDef only = new ConfigDef().define(definitions.configKeys().get(name));
        try {
            only.parse(Map.of(name, value));
            return true;
        } catch (Exception problem) {
            return false;
        }
    }

    static void dump(PrintStream out, String kind, ConfigDef definitions) {
        for (ConfigDef.ConfigKey key : definitions.configKeys().values()) {
            Object value = key.defaultValue;
            String text = value == ConfigDef.NO_DEFAULT_VALUE ? "<required>" : value == null ? "<null>"
                : ConfigDef.convertToString(value, key.type);
            String valid = key.validator == null ? "" : key.validator.toString().replaceAll("\\s+", " ");
            out.println(String.join("\t", kind, key.name, key.type.toString(), text, valid,
                key.importance.toString(), String.valueOf(key.internalConfig),
                key.documentation == null ? "" : key.documentation.replaceAll("\\s+", " ")));
        }
    }
}
