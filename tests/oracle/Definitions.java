// The definitions of all settings of Apache Kafka, one a line, tab-separated:
//   KIND name type default valid importance internal     KIND: broker, topic, group, metrics
//   mode name MODE                                       how a broker's setting can be changed
//   synonym topic-setting broker-setting factor

import java.io.*;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;

public class Definitions {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        dump(out, "broker", (ConfigDef) Class.forName("kafka.server.KafkaConfig").getMethod("configDef").invoke(null));
        dump(out, "broker", (ConfigDef) Class.forName("org.apache.kafka.server.config.QuotaConfig").getMethod("brokerQuotaConfigs").invoke(null));
        dump(out, "topic", (ConfigDef) Class.forName("org.apache.kafka.storage.internals.log.LogConfig").getMethod("configDefCopy").invoke(null));
        dump(out, "group", (ConfigDef) Class.forName("org.apache.kafka.coordinator.group.GroupConfig").getField("CONFIG_DEF").get(null));
        dump(out, "metrics", (ConfigDef) Class.forName("org.apache.kafka.server.metrics.ClientMetricsConfigs").getMethod("configDef").invoke(null));
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

    static void dump(PrintStream out, String kind, ConfigDef definitions) {
        for (ConfigDef.ConfigKey key : definitions.configKeys().values()) {
            Object value = key.defaultValue;
            String text = value == ConfigDef.NO_DEFAULT_VALUE ? "<required>" : value == null ? "<null>"
                : ConfigDef.convertToString(value, key.type);
            String valid = key.validator == null ? "" : key.validator.toString().replaceAll("\\s+", " ");
            out.println(String.join("\t", kind, key.name, key.type.toString(), text, valid,
                key.importance.toString(), String.valueOf(key.internalConfig)));
        }
    }
}
