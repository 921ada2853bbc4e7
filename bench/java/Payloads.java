import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/** The values to send: from a file that bench/payloads.py has written, or random bytes of one size. */
final class Payloads {
    private static final int COUNT = 64;
    private static final long SEED = 20_240_701;
    private static final Map<String, byte[][]> FILES = new HashMap<>();

    private Payloads() { }

    /** Those of the file `payloads` if the command names one, else random bytes of `size`. */
    static byte[][] of(JsonNode command) throws IOException {
        if (!command.has("payloads")) {
            return random(command.get("size").asInt());
        }
        String path = command.get("payloads").asText();
        if (!FILES.containsKey(path)) {
            FILES.put(path, read(Path.of(path)));
        }
        return FILES.get(path);
    }

    /** Random bytes: they cannot be compressed, and are the same in every round. */
    static byte[][] random(int size) {
        SplittableRandom random = new SplittableRandom(SEED);
        byte[][] payloads = new byte[COUNT][size];
        for (byte[] payload : payloads) {
            random.nextBytes(payload);
        }
        return payloads;
    }

    private static byte[][] read(Path path) throws IOException {
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(path));
        List<byte[]> values = new ArrayList<>();
        while (data.hasRemaining()) {
            byte[] value = new byte[data.getInt()];
            data.get(value);
            values.add(value);
        }
        return values.toArray(new byte[0][]);
    }
}
