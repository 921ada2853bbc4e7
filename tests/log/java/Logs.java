import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.DescribeProducersResponseData.ProducerState;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** One log of Apache Kafka, opened and driven by lines of JSON. */
public final class Logs {
    private static final HexFormat HEX = HexFormat.of();

    private static UnifiedLog log;
    private static long now;
    private static VerificationGuard guard = VerificationGuard.SENTINEL;

    private Logs() { }

    public static void main(String[] arguments) throws Exception {
        Map<String, Lines.Verb> verbs = new HashMap<>();
        verbs.put("open", Logs::open);
        verbs.put("append", Logs::append);
        verbs.put("replicate", Logs::replicate);
        verbs.put("verify", Logs::verify);
        verbs.put("describe", command -> describe());
        verbs.put("read", Logs::read);
        verbs.put("aborted", Logs::aborted);
        verbs.put("time", Logs::time);
        verbs.put("epoch_end", Logs::epochEnd);
        verbs.put("delete", Logs::delete);
        verbs.put("begin_epoch", command -> {
            log.assignEpochStartOffset(command.get("epoch").asInt(), log.logEndOffset());
            return Lines.object();
        });
        verbs.put("roll", command -> done(log.roll()));
        verbs.put("truncate", command -> done(log.truncateTo(command.get("offset").asLong())));
        verbs.put("flush", command -> {
            log.flush(false);
            return Lines.object();
        });
        verbs.put("close", command -> {
            log.flush(true);
            log.close();
            return Lines.object();
        });
        Lines.serve(verbs);
    }

    private static ObjectNode done(Object ignored) {
        return Lines.object();
    }

    private static ObjectNode open(JsonNode command) throws Exception {
        Properties settings = new Properties();
        command.get("settings").properties().forEach(
            setting -> settings.put(setting.getKey(), setting.getValue().asText()));
        now = command.get("now").asLong();
        log = UnifiedLog.create(
            new File(command.get("path").asText()),
            new LogConfig(settings),
            command.get("log_start_offset").asLong(),
            command.get("recovery_point").asLong(),
            new AtOnce(),
            new BrokerTopicStats(),
            new StillTime(),
            900_000,
            new ProducerStateManagerConfig(86_400_000, command.get("verify").asBoolean()),
            600_000,
            new LogDirFailureChannel(10),
            command.get("was_clean").asBoolean(),
            Optional.of(Uuid.fromString(command.get("topic_id").asText())),
            new ConcurrentHashMap<>(),
            false,
            org.apache.kafka.storage.internals.log.LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        log.updateHighWatermark(log.logEndOffset());
        return describe();
    }

    private static MemoryRecords records(JsonNode command) {
        return MemoryRecords.readableRecords(
            ByteBuffer.wrap(HEX.parseHex(command.get("records").asText())));
    }

    private static ObjectNode append(JsonNode command) {
        ObjectNode answer = Lines.object();
        now = command.get("now").asLong();
        try {
            LogAppendInfo info = log.appendAsLeader(
                records(command),
                command.get("epoch").asInt(),
                AppendOrigin.valueOf(command.get("origin").asText()),
                RequestLocal.noCaching(),
                guard,
                (short) command.get("transaction_version").asInt());
            answer.put("first", info.firstOffset()).put("last", info.lastOffset());
            answer.put("append_time", info.logAppendTime());
        } catch (RecordValidationException refused) {
            answer.put("refused", org.apache.kafka.common.protocol.Errors
                .forException(refused.invalidException()).name());
            ArrayNode indices = answer.putArray("indices");
            refused.recordErrors().forEach(error -> indices.add(error.batchIndex));
        } catch (org.apache.kafka.common.errors.ApiException refused) {
            answer.put("refused", org.apache.kafka.common.protocol.Errors.forException(refused).name());
        }
        if (command.get("replicated").asBoolean()) {
            try {
                log.updateHighWatermark(log.logEndOffset());
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        }
        return answer;
    }

    private static ObjectNode replicate(JsonNode command) throws Exception {
        log.appendAsFollower(records(command), command.get("epoch").asInt());
        log.updateHighWatermark(log.logEndOffset());
        return Lines.object();
    }

    private static ObjectNode verify(JsonNode command) {
        guard = log.maybeStartTransactionVerification(
            command.get("producer_id").asLong(),
            command.get("sequence").asInt(),
            (short) command.get("epoch").asInt(),
            command.get("supports_epoch_bump").asBoolean());
        return Lines.object();
    }

    private static ObjectNode describe() throws Exception {
        ObjectNode answer = Lines.object();
        answer.put("log_start_offset", log.logStartOffset());
        answer.put("log_end_offset", log.logEndOffset());
        answer.put("high_watermark", log.highWatermark());
        answer.put("last_stable_offset", log.lastStableOffset());
        answer.put("recovery_point", log.recoveryPoint());
        ArrayNode segments = answer.putArray("segments");
        for (LogSegment segment : log.logSegments()) {
            segments.addArray().add(segment.baseOffset()).add(segment.size())
                .add(segment.maxTimestampSoFar());
        }
        ArrayNode epochs = answer.putArray("epochs");
        LeaderEpochFileCache cache = log.leaderEpochCache();
        for (EpochEntry entry : cache.epochEntries()) {
            epochs.addArray().add(entry.epoch()).add(entry.startOffset());
        }
        ArrayNode producers = answer.putArray("producers");
        for (ProducerState producer : log.activeProducers()) {
            producers.addArray()
                .add(producer.producerId())
                .add(producer.producerEpoch())
                .add(producer.lastSequence())
                .add(producer.lastTimestamp())
                .add(producer.coordinatorEpoch())
                .add(producer.currentTxnStartOffset());
        }
        return answer;
    }

    private static ObjectNode read(JsonNode command) throws Exception {
        FetchDataInfo found = log.read(
            command.get("offset").asLong(),
            command.get("max_bytes").asInt(),
            FetchIsolation.valueOf(command.get("isolation").asText()),
            command.get("whole_first").asBoolean());
        ObjectNode answer = Lines.object();
        Records records = found.records;
        ByteBuffer content = ByteBuffer.allocate(records.sizeInBytes());
        if (records instanceof FileRecords file) {
            file.readInto(content, 0);
        }
        answer.put("records", HEX.formatHex(content.array()));
        answer.put("incomplete", found.firstEntryIncomplete);
        ArrayNode aborted = answer.putArray("aborted");
        found.abortedTransactions.ifPresent(all -> all.forEach(
            one -> aborted.addArray().add(one.producerId()).add(one.firstOffset())));
        return answer;
    }

    private static ObjectNode aborted(JsonNode command) {
        ObjectNode answer = Lines.object();
        ArrayNode found = answer.putArray("aborted");
        for (AbortedTxn one : log.collectAbortedTransactions(
                command.get("offset").asLong(), command.get("upper").asLong())) {
            found.addArray().add(one.producerId()).add(one.firstOffset()).add(one.lastOffset())
                .add(one.lastStableOffset());
        }
        return answer;
    }

    private static ObjectNode time(JsonNode command) {
        ObjectNode answer = Lines.object();
        log.fetchOffsetByTimestamp(command.get("time").asLong(), Optional.empty())
            .timestampAndOffsetOpt().ifPresent(found -> answer.putArray("found")
                .add(found.timestamp).add(found.offset).add(found.leaderEpoch.orElse(-1)));
        return answer;
    }

    private static ObjectNode epochEnd(JsonNode command) {
        Optional<OffsetAndEpoch> found = log.endOffsetForEpoch(command.get("epoch").asInt());
        ObjectNode answer = Lines.object();
        found.ifPresent(end -> answer.putArray("found").add(end.epoch()).add(end.offset()));
        return answer;
    }

    private static ObjectNode delete(JsonNode command) throws Exception {
        now = command.get("now").asLong();
        log.maybeIncrementLogStartOffset(
            command.get("offset").asLong(), LogStartOffsetIncrementReason.ClientRecordDeletion);
        log.deleteOldSegments();
        return describe();
    }

    /** A clock that a test moves. */
    private static final class StillTime implements Time {
        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long milliseconds) { }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }
    }

    /** Does at once what it is given once, and never what is to be repeated. */
    private static final class AtOnce implements Scheduler {
        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            if (period < 0) {
                task.run();
            }
            return new Done();
        }

        @Override
        public void resizeThreadPool(int size) { }
    }

    private static final class Done extends CompletableFuture<Void> implements ScheduledFuture<Void> {
        @Override
        public long getDelay(java.util.concurrent.TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(java.util.concurrent.Delayed other) {
            return 0;
        }
    }
}
