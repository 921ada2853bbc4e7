// The messages of a Connect group. Each line of the input is `m` or `a` (metadata or assignment), a tab, and the
// message in Base64. The output is what Java writes for the message that it has read, or `!` and the error.

import java.io.*;
import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.connect.runtime.distributed.*;

public class ConnectProtocol {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            ByteBuffer data = ByteBuffer.wrap(Base64.getDecoder().decode(words[1]));
            boolean sessioned = data.getShort(0) == 2;
            try {
                ByteBuffer written = words[0].equals("m")
                    ? IncrementalCooperativeConnectProtocol.serializeMetadata(
                        IncrementalCooperativeConnectProtocol.deserializeMetadata(data), sessioned)
                    : IncrementalCooperativeConnectProtocol.serializeAssignment(
                        IncrementalCooperativeConnectProtocol.deserializeAssignment(data), sessioned);
                byte[] bytes = new byte[written.remaining()];
                written.get(bytes);
                out.println(Base64.getEncoder().encodeToString(bytes));
            } catch (Exception error) {
                out.println("!" + error);
            }
        }
        out.flush();
    }
}
