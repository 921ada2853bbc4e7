import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Apache Kafka's tools one after the other in one warm JVM. A tool's exit
 * becomes a value, its standard output and error become text; a start of the JVM per call is saved.
 */
final class Tools {
    private static final class Exited extends RuntimeException {
        Exited(int code) {
            super("exit code " + code);
        }
    }

    /** The first wins: a tool that catches everything takes its own exit for a failure. */
    private static Integer firstCode;

    private Tools() { }

    public static void main(String[] args) throws Exception {
        Lines.serve(Map.of("run", Tools::run));
    }

    static ObjectNode run(JsonNode command) throws Exception {
        List<String> words = new ArrayList<>();
        command.get("arguments").forEach(word -> words.add(word.asText()));
        byte[] input = command.path("input").asText("").getBytes(StandardCharsets.UTF_8);
        return run(command.get("tool").asText(), words, input);
    }

    static ObjectNode run(String tool, List<String> words, byte[] input) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream oldOut = System.out;
        PrintStream oldErr = System.err;
        InputStream oldIn = System.in;
        firstCode = null;
        Exit.setExitProcedure(Tools::exit);
        Exit.setHaltProcedure(Tools::exit);
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(input));
        int code;
        try {
            code = exitCode(tool, words);
        } finally {
            System.setOut(oldOut);
            System.setErr(oldErr);
            System.setIn(oldIn);
            Exit.resetExitProcedure();
            Exit.resetHaltProcedure();
        }
        ObjectNode result = Lines.object();
        result.put("code", code).put("out", out.toString(StandardCharsets.UTF_8));
        return result.put("err", err.toString(StandardCharsets.UTF_8));
    }

    private static int exitCode(String tool, List<String> words) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) words.toArray(new String[0]));
            return 0;
        } catch (InvocationTargetException wrapped) {
            Throwable cause = wrapped.getCause();
            if (cause instanceof Exited) {
                return firstCode;
            }
            cause.printStackTrace();
            return 1;
        }
    }

    private static void exit(int code, String message) {
        if (firstCode == null) {
            firstCode = code;
            if (message != null) {
                System.err.println(message);
            }
        }
        throw new Exited(code);
    }
}
