import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;

/**
 * The other end of compat/lab/dialogue.py: reads one command a line, answers with one line.
 * Standard output belongs to the dialogue from here on; what other code prints goes to the log.
 */
final class Lines {
    static final ObjectMapper JSON = new ObjectMapper();

    interface Verb {
        ObjectNode run(JsonNode command) throws Exception;
    }

    static final class UnsupportedVerb extends Exception {
        UnsupportedVerb(String reason) {
            super(reason);
        }
    }

    private Lines() { }

    static ObjectNode object() {
        return JSON.createObjectNode();
    }

    static void serve(Map<String, Verb> verbs) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answers.println(JSON.writeValueAsString(answer(verbs, JSON.readTree(line))));
        }
        Runtime.getRuntime().halt(0);
    }

    private static ObjectNode answer(Map<String, Verb> verbs, JsonNode command) {
        ObjectNode answer = object();
        Verb verb = verbs.get(command.get("do").asText());
        if (verb == null) {
            return answer.put("unsupported", "the Java program has no verb " + command.get("do"));
        }
        try {
            answer.set("ok", verb.run(command));
        } catch (UnsupportedVerb reason) {
            answer.put("unsupported", reason.getMessage());
        } catch (Throwable error) {
            error.printStackTrace();
            Throwable cause = error instanceof ExecutionException && error.getCause() != null ? error.getCause() : error;
            ObjectNode refused = answer.putObject("error");
            refused.put("name", nameOf(cause)).put("message", String.valueOf(cause.getMessage()));
        }
        return answer;
    }

    /** The protocol's name where the error has one, else the name of its class. */
    private static String nameOf(Throwable error) {
        if (error instanceof ApiException) {
            Errors known = Errors.forException(error);
            if (known != Errors.UNKNOWN_SERVER_ERROR) {
                return known.name();
            }
        }
        return error.getClass().getSimpleName();
    }
}
