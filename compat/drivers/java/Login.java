import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The verb that writes and reads a record with given credentials, and tells the client's errors. */
final class Login {
    private static final String SECURITY = "org.apache.kafka.common.security.";
    private static final long LIFETIME_MS = 300_000;

    private Login() { }

    static ObjectNode run(JsonNode command) throws InterruptedException {
        ObjectNode answer = Lines.object();
        ArrayNode said = answer.putArray("said");
        try {
            String topic = command.get("topic").asText();
            RecordMetadata written = write(command, topic);
            if (!read(command, topic, written)) {
                said.add("the record was not read");
            }
        } catch (ExecutionException error) {
            add(said, error.getCause());
        } catch (RuntimeException error) {
            add(said, error);
        }
        return answer;
    }

    private static RecordMetadata write(JsonNode command, String topic)
        throws ExecutionException, InterruptedException {
        Map<String, Object> settings = settings(command);
        settings.put("max.block.ms", command.get("timeout_ms").asInt());
        settings.put("delivery.timeout.ms", command.get("timeout_ms").asInt());
        settings.put("linger.ms", 0);
        settings.put("enable.idempotence", false);
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        try {
            return producer.send(new ProducerRecord<>(topic, 0, null, command.get("value").asText())).get();
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    private static boolean read(JsonNode command, String topic, RecordMetadata written) {
        Map<String, Object> settings = settings(command);
        settings.put("default.api.timeout.ms", command.get("timeout_ms").asInt());
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, written.offset());
            long end = System.nanoTime() + command.get("timeout_ms").asLong() * 1_000_000;
            while (System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    return record.value().equals(command.get("value").asText());
                }
            }
        }
        return false;
    }

    /** Adds the error and its causes, outermost first. */
    static void add(ArrayNode said, Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            said.add(each.getClass().getSimpleName() + ": " + each.getMessage());
        }
    }

    static Map<String, Object> settings(JsonNode command) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", command.get("bootstrap").asText());
        settings.put("security.protocol", command.get("protocol").asText());
        settings.put("request.timeout.ms", command.get("timeout_ms").asInt());
        settings.put("enable.metrics.push", false);
        if (command.hasNonNull("trust")) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", command.get("trust").asText());
        }
        if (command.hasNonNull("key")) {
            settings.put("ssl.keystore.type", "PEM");
            settings.put("ssl.keystore.location", command.get("key").asText());
        }
        if (command.hasNonNull("krb5")) {
            System.setProperty("java.security.krb5.conf", command.get("krb5").asText());
            settings.put("sasl.kerberos.service.name", command.get("service").asText());
        }
        if (command.hasNonNull("mechanism")) {
            settings.put("sasl.mechanism", command.get("mechanism").asText());
            settings.put("sasl.jaas.config", jaas(command));
            if (command.hasNonNull("token")) {
                settings.put("sasl.login.callback.handler.class", GivenToken.class.getName());
            }
        }
        return settings;
    }

    private static String jaas(JsonNode command) {
        if (command.hasNonNull("token")) {
            return SECURITY + "oauthbearer.OAuthBearerLoginModule required token=\""
                + command.get("token").asText() + "\";";
        }
        if (command.hasNonNull("krb5")) {
            String origin = command.hasNonNull("keys")
                ? " useKeyTab=true storeKey=true keyTab=\"" + command.get("keys").asText()
                : " useTicketCache=true doNotPrompt=true ticketCache=\"" + command.get("tickets").asText();
            return "com.sun.security.auth.module.Krb5LoginModule required refreshKrb5Config=true"
                + origin + "\" principal=\"" + command.get("principal").asText() + "\";";
        }
        String module = command.get("mechanism").asText().equals("PLAIN")
            ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        String options = " required username=\"" + command.get("user").asText() + "\" password=\""
            + command.get("password").asText() + "\"";
        String delegated = command.path("is_delegation_token").asBoolean() ? " tokenauth=\"true\"" : "";
        return SECURITY + module + options + delegated + ";";
    }

    /** Gives the client the token in its login module's option `token`, whatever the token is. */
    public static final class GivenToken implements AuthenticateCallbackHandler {
        private String text;

        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
            text = (String) entries.get(0).getOptions().get("token");
        }

        @Override
        public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
            for (Callback each : callbacks) {
                if (each instanceof OAuthBearerTokenCallback) {
                    ((OAuthBearerTokenCallback) each).token(new Given(text));
                } else if (!each.getClass().getSimpleName().equals("SaslExtensionsCallback")) {
                    throw new UnsupportedCallbackException(each);
                }
            }
        }

        @Override
        public void close() { }
    }

    private record Given(String value) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return System.currentTimeMillis() + LIFETIME_MS;
        }

        @Override
        public String principalName() {
            return "alice";
        }

        @Override
        public Long startTimeMs() {
            return System.currentTimeMillis();
        }
    }
}
