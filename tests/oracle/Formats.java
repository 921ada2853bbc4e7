import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import kafka.tools.StorageTool;

/** Runs Apache Kafka's StorageTool for each line of words between tabs; prints "ok" or the error. */
public class Formats {
    public static void main(String[] ignored) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String said;
            try {
                PrintStream out = new PrintStream(new ByteArrayOutputStream());
                int code = StorageTool.execute(line.split("\t", -1), out);
                said = code == 0 ? "ok" : "exit code " + code;
            } catch (Throwable error) {
                said = String.valueOf(error.getMessage()).replace('\n', ' ');
            }
            System.out.println(said);
        }
    }
}
