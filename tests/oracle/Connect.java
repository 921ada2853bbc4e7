// Converters and transforms of Kafka Connect. Each line of the input has words in Base64, between tabs:
//   class, configuration (JSON), whether the value has a schema, value, topic, timestamp
// The output is `=` and the changed record (topic, value and headers in Base64), `-` for a dropped record, or
// `!` and the class of the exception.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;

public class Connect {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            for (int i = 0; i < words.length; i++)
                words[i] = new String(Base64.getDecoder().decode(words[i]), StandardCharsets.UTF_8);
            String answer;
            try {
                answer = answer(words);
            } catch (Throwable error) {
                answer = "!" + error.getClass().getSimpleName() + " " + String.valueOf(error.getMessage()).replace("\n", " ");
            }
            out.println(answer);
        }
        out.flush();
    }

    @SuppressWarnings("unchecked")
    static String answer(String[] words) throws Exception {
        JsonConverter json = new JsonConverter();
        json.configure(Map.of("schemas.enable", words[2]), false);
        SchemaAndValue value = json.toConnectData("t", words[3].isEmpty() ? null : words[3].getBytes(StandardCharsets.UTF_8));
        SinkRecord record = new SinkRecord(words[4], 3, null, null, value.schema(), value.value(), 42,
            Long.parseLong(words[5]), TimestampType.CREATE_TIME);
        if (!words[0].isEmpty()) {
            Map<String, String> config = new ObjectMapper().readValue(words[1], Map.class);
            Transformation<SinkRecord> transform =
                (Transformation<SinkRecord>) Class.forName("org.apache.kafka.connect.transforms." + words[0]).getDeclaredConstructor().newInstance();
            transform.configure(config);
            record = transform.apply(record);
        }
        if (record == null)
            return "-";
        StringBuilder text = new StringBuilder("=").append(encoded(record.topic().getBytes(StandardCharsets.UTF_8)));
        text.append("\t").append(encoded(json.fromConnectData("t", record.valueSchema(), record.value())));
        text.append("\t").append(encoded(json.fromConnectData("t", record.keySchema(), record.key())));
        SimpleHeaderConverter headers = new SimpleHeaderConverter();
        for (Header header : record.headers()) {
            text.append("\t").append(encoded(header.key().getBytes(StandardCharsets.UTF_8)));
            text.append("\t").append(encoded(headers.fromConnectHeader("t", header.key(), header.schema(), header.value())));
        }
        return text.toString();
    }

    static String encoded(byte[] bytes) {
        return bytes == null ? "" : "." + Base64.getEncoder().encodeToString(bytes);
    }
}
