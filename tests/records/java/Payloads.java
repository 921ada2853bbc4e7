// What Apache Kafka does with a batch: each line of the input is a batch in hexadecimal digits. The output has the
// name of the error of LogValidator (NONE: it is appended), a tab, and the number of records that a consumer
// reads, or the exception that it gets.

import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.storage.internals.log.*;

public class Payloads {
    static final LogValidator.MetricsRecorder NOTHING = new LogValidator.MetricsRecorder() {
        public void recordInvalidMagic() {}
        public void recordInvalidOffset() {}
        public void recordInvalidSequence() {}
        public void recordInvalidChecksums() {}
        public void recordNoKeyCompactedTopic() {}
    };

    static String appended(byte[] bytes) {
        try {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes.clone()));
            CompressionType type = records.batches().iterator().next().compressionType();
            new LogValidator(
                records, new TopicPartition("t", 0), Time.SYSTEM, type, Compression.of(type).build(), false,
                (byte) 2, TimestampType.CREATE_TIME, Long.MAX_VALUE, Long.MAX_VALUE, 0, AppendOrigin.CLIENT
            ).validateMessagesAndAssignOffsets(
                PrimitiveRef.ofLong(0), NOTHING, BufferSupplier.create());
            return "NONE";
        } catch (Throwable error) {
            return Errors.forException(error).name();
        }
    }

    static String read(byte[] bytes) {
        try {
            int count = 0;
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes.clone())).batches()) {
                try (CloseableIterator<Record> records = batch.streamingIterator(BufferSupplier.create())) {
                    for (; records.hasNext(); count++)
                        records.next();
                }
            }
            return String.valueOf(count);
        } catch (Throwable error) {
            return error.getClass().getSimpleName() + (error.getCause() == null ? "" : " of " + error.getCause());
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        for (String line; (line = in.readLine()) != null; ) {
            byte[] bytes = HexFormat.of().parseHex(line);
            out.println(appended(bytes) + "\t" + read(bytes).replace('\n', ' '));
        }
        out.flush();
    }
}
