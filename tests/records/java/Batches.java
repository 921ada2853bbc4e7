import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;

/** Apache Kafka's own record batches: each line of input is answered by one line. */
public class Batches {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode wanted = JSON.readTree(line);
            out.println(wanted.has("read") ? read(wanted.get("read").asText()) : build(wanted));
        }
    }

    private static String read(String hex) {
        ArrayNode batches = JSON.createArrayNode();
        MemoryRecords data = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(hex)));
        for (MutableRecordBatch batch : data.batches()) {
            batch.ensureValid();
            ObjectNode found = batches.addObject();
            found.put("base_offset", batch.baseOffset());
            found.put("last_offset", batch.lastOffset());
            found.put("leader_epoch", batch.partitionLeaderEpoch());
            found.put("codec", batch.compressionType().name);
            found.put("max_timestamp", batch.maxTimestamp());
            found.put("producer_id", batch.producerId());
            found.put("producer_epoch", batch.producerEpoch());
            found.put("base_sequence", batch.baseSequence());
            found.put("last_sequence", batch.lastSequence());
            found.put("is_transactional", batch.isTransactional());
            found.put("is_control", batch.isControlBatch());
            ArrayNode records = found.putArray("records");
            for (Record record : batch) {
                ObjectNode one = records.addObject();
                one.put("offset", record.offset());
                one.put("timestamp", record.timestamp());
                one.put("sequence", record.sequence());
                one.put("key", text(record.key()));
                one.put("value", text(record.value()));
                ArrayNode headers = one.putArray("headers");
                for (Header header : record.headers()) {
                    headers.addArray().add(header.key())
                        .add(header.value() == null ? null : HEX.formatHex(header.value()));
                }
            }
        }
        return batches.toString();
    }

    private static String build(JsonNode wanted) {
        long appendTime = wanted.get("log_append_time").asLong(-1);
        CompressionType type = CompressionType.forName(wanted.get("codec").asText());
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1024),
            (byte) 2,
            Compression.of(type).build(),
            appendTime < 0 ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME,
            wanted.get("base_offset").asLong(),
            appendTime,
            wanted.get("producer_id").asLong(),
            (short) wanted.get("producer_epoch").asInt(),
            wanted.get("base_sequence").asInt(),
            wanted.get("is_transactional").asBoolean(),
            wanted.get("leader_epoch").asInt());
        for (JsonNode record : wanted.get("records")) {
            JsonNode pairs = record.get("headers");
            Header[] headers = new Header[pairs.size()];
            for (int i = 0; i < headers.length; i++) {
                headers[i] = new RecordHeader(pairs.get(i).get(0).asText(), bytes(pairs.get(i).get(1)));
            }
            builder.append(
                record.get("timestamp").asLong(),
                bytes(record.get("key")),
                bytes(record.get("value")),
                headers);
        }
        ByteBuffer built = builder.build().buffer();
        byte[] content = new byte[built.remaining()];
        built.get(content);
        return HEX.formatHex(content);
    }

    private static byte[] bytes(JsonNode hex) {
        return hex.isNull() ? null : HEX.parseHex(hex.asText());
    }

    private static String text(ByteBuffer content) {
        if (content == null) {
            return null;
        }
        byte[] bytes = new byte[content.remaining()];
        content.get(bytes);
        return HEX.formatHex(bytes);
    }
}
