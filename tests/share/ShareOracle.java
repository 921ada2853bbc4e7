import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.message.ShareFetchResponseData.AcquiredRecords;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.fetch.ShareAcquiredRecords;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/** Runs histories of a share partition in Apache Kafka's SharePartition; see histories.py. */
public class ShareOracle {
    private static final Uuid TOPIC = new Uuid(1, 1);
    private static final TopicIdPartition PARTITION =
        new TopicIdPartition(TOPIC, new TopicPartition("t", 0));

    public static void main(String[] arguments) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        ShareOracle oracle = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            if (words[0].equals("new")) {
                oracle = new ShareOracle(words);
            }
            String answer;
            try {
                answer = oracle.perform(words) + " | " + oracle.state();
            } catch (RuntimeException exception) {
                answer = "failed: " + exception.getMessage();
            }
            out.println("= " + answer);
        }
        out.flush();
    }

    private final Object partition;
    private final List<Scheduled> timer = new ArrayList<>();
    private final ArrayDeque<CompletableFuture<WriteShareGroupStateResult>> writes =
        new ArrayDeque<>();
    private final TreeMap<Long, String> written = new TreeMap<>();
    private long now = 0;
    private long scheduled = 0;
    private boolean isAdvancing = false;

    private record Scheduled(TimerTaskEntry entry, long expirationMs, long number) { }

    private ShareOracle(String[] words) throws Exception {
        List<PersisterStateBatch> batches = new ArrayList<>();
        for (String each : words[6].isEmpty() ? new String[0] : words[6].split(",")) {
            String[] parts = each.split(":");
            batches.add(new PersisterStateBatch(Long.parseLong(parts[0]), Long.parseLong(parts[1]),
                Byte.parseByte(parts[2]), Short.parseShort(parts[3])));
        }
        ReadShareGroupStateResult stored = new ReadShareGroupStateResult.Builder()
            .setTopicsData(List.of(new TopicData<>(TOPIC, List.of(
                PartitionFactory.newPartitionAllData(0, Integer.parseInt(words[5]),
                    Long.parseLong(words[4]), (short) 0, null, batches)))))
            .build();
        Constructor<?> constructor = null;
        for (Constructor<?> each :
            Class.forName("kafka.server.share.SharePartition").getDeclaredConstructors()) {
            if (each.getParameterCount() == 12) {
                constructor = each;
            }
        }
        constructor.setAccessible(true);
        partition = constructor.newInstance("g", PARTITION, 3, Integer.parseInt(words[1]),
            Integer.parseInt(words[2]), Integer.parseInt(words[3]), timer(), time(),
            persister(stored), null, settings(), null);
    }

    private static GroupConfigManager settings() {
        ConfigDef definitions = new ConfigDef(GroupCoordinatorConfig.CONFIG_DEF);
        ShareGroupConfig.CONFIG_DEF.configKeys().values().forEach(definitions::define);
        AbstractConfig broker = new AbstractConfig(definitions, Map.of(), false);
        return new GroupConfigManager(
            Map.of(), new GroupCoordinatorConfig(broker), new ShareGroupConfig(broker));
    }

    private Timer timer() {
        return new Timer() {
            @Override
            public void add(TimerTask task) {
                long expirationMs = now + task.delayMs;
                timer.add(new Scheduled(
                    new TimerTaskEntry(task, expirationMs), expirationMs, scheduled++));
            }

            @Override
            public boolean advanceClock(long timeoutMs) {
                throw new UnsupportedOperationException();
            }

            @Override
            public int size() {
                return timer.size();
            }

            @Override
            public void close() { }
        };
    }

    private Time time() {
        return (Time) Proxy.newProxyInstance(
            getClass().getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, values) ->
                switch (method.getName()) {
                    case "milliseconds", "hiResClockMs" -> now;
                    case "nanoseconds" -> now * 1_000_000;
                    default -> throw new UnsupportedOperationException(method.getName());
                });
    }

    private Persister persister(ReadShareGroupStateResult stored) {
        return (Persister) Proxy.newProxyInstance(
            getClass().getClassLoader(), new Class<?>[] {Persister.class},
            (proxy, method, values) -> switch (method.getName()) {
                case "readState" -> CompletableFuture.completedFuture(stored);
                case "writeState" -> write((WriteShareGroupStateParameters) values[0]);
                default -> throw new UnsupportedOperationException(method.getName());
            });
    }

    private CompletableFuture<WriteShareGroupStateResult> write(
        WriteShareGroupStateParameters parameters) {
        PartitionStateBatchData data =
            parameters.groupTopicPartitionData().topicsData().get(0).partitions().get(0);
        for (PersisterStateBatch each : data.stateBatches()) {
            for (long offset = each.firstOffset(); offset <= each.lastOffset(); offset++) {
                written.put(offset, each.deliveryState() + "x" + each.deliveryCount());
            }
        }
        if (isAdvancing) {
            return CompletableFuture.completedFuture(result(Errors.NONE));
        }
        CompletableFuture<WriteShareGroupStateResult> future = new CompletableFuture<>();
        writes.add(future);
        return future;
    }

    private static WriteShareGroupStateResult result(Errors error) {
        return new WriteShareGroupStateResult.Builder()
            .setTopicsData(List.of(new TopicData<>(TOPIC,
                List.of(PartitionFactory.newPartitionErrorData(0, error.code(), null)))))
            .build();
    }

    private String perform(String[] words) throws Exception {
        written.clear();
        switch (words[0]) {
            case "new" -> {
                ((CompletableFuture<?>) call("maybeInitialize")).join();
                return "";
            }
            case "next" -> {
                return call("canAcquireRecords") + " " + call("nextFetchOffset");
            }
            case "acquire" -> {
                return acquire(words);
            }
            case "acknowledge" -> {
                return outcome((CompletableFuture<?>) call(
                    "acknowledge", words[1], acknowledgements(words[2])));
            }
            case "release" -> {
                return outcome((CompletableFuture<?>) call("releaseAcquiredRecords", words[1]));
            }
            case "stored" -> {
                Errors error = words[1].equals("true") ? Errors.NONE : Errors.UNKNOWN_SERVER_ERROR;
                writes.remove().complete(result(error));
                return "";
            }
            case "time" -> {
                advance(Long.parseLong(words[1]));
                return writtenText();
            }
            case "start" -> {
                call("updateCacheAndOffsets", Long.parseLong(words[1]));
                return "";
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private String acquire(String[] words) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[6]));
        List<AbortedTransaction> aborted = new ArrayList<>();
        for (String each : words[7].isEmpty() ? new String[0] : words[7].split(",")) {
            String[] parts = each.split(":");
            aborted.add(new AbortedTransaction().setProducerId(Long.parseLong(parts[0]))
                .setFirstOffset(Long.parseLong(parts[1])));
        }
        FetchPartitionData data = new FetchPartitionData(Errors.NONE, 0, 0,
            MemoryRecords.readableRecords(bytes), Optional.empty(), OptionalLong.empty(),
            aborted.isEmpty() ? Optional.empty() : Optional.of(aborted), OptionalInt.empty(),
            false);
        ShareAcquiredRecords acquired = (ShareAcquiredRecords) call("acquire", words[1],
            ShareAcquireMode.forId(Byte.parseByte(words[2])), Integer.parseInt(words[3]),
            Integer.parseInt(words[4]), Long.parseLong(words[5]), data,
            aborted.isEmpty() ? FetchIsolation.HIGH_WATERMARK : FetchIsolation.TXN_COMMITTED);
        StringBuilder text = new StringBuilder();
        for (AcquiredRecords each : acquired.acquiredRecords()) {
            text.append(each.firstOffset()).append('-').append(each.lastOffset()).append('x')
                .append(each.deliveryCount()).append(' ');
        }
        return text.append(acquired.count()).toString();
    }

    private static List<ShareAcknowledgementBatch> acknowledgements(String text) {
        List<ShareAcknowledgementBatch> found = new ArrayList<>();
        for (String each : text.split(";")) {
            String[] parts = each.split(":");
            List<Byte> types = new ArrayList<>();
            for (String type : parts[2].split(",")) {
                types.add(Byte.parseByte(type));
            }
            found.add(new ShareAcknowledgementBatch(
                Long.parseLong(parts[0]), Long.parseLong(parts[1]), types));
        }
        return found;
    }

    private String outcome(CompletableFuture<?> future) {
        if (!future.isDone()) {
            return "stores " + writtenText();
        }
        try {
            future.join();
            return "nothing to store";
        } catch (CompletionException exception) {
            return Errors.forException(exception.getCause()).name();
        }
    }

    private String writtenText() {
        StringBuilder text = new StringBuilder();
        written.forEach((offset, state) ->
            text.append(offset).append('=').append(state).append(' '));
        return text.toString();
    }

    private void advance(long passedMs) {
        now += passedMs;
        isAdvancing = true;
        while (true) {
            Optional<Scheduled> first = timer.stream()
                .filter(each -> each.expirationMs <= now)
                .min(Comparator.comparingLong(Scheduled::expirationMs)
                    .thenComparingLong(Scheduled::number));
            if (first.isEmpty()) {
                break;
            }
            timer.remove(first.get());
            if (!first.get().entry.cancelled()) {
                try {
                    first.get().entry.timerTask.run();
                } catch (NullPointerException exception) {
                    // There is no replica manager that could be told; that is the last step.
                    if (!exception.getMessage().contains("replicaManager")) {
                        throw exception;
                    }
                }
            }
        }
        timer.removeIf(each -> each.entry.cancelled());
        isAdvancing = false;
    }

    private String state() throws Exception {
        StringBuilder text = new StringBuilder();
        text.append(call("startOffset")).append(' ').append(call("endOffset")).append(' ')
            .append(call("deliveryCompleteCount"));
        @SuppressWarnings("unchecked")
        NavigableMap<Long, InFlightBatch> cached =
            (NavigableMap<Long, InFlightBatch>) call("cachedState");
        for (InFlightBatch each : cached.values()) {
            text.append(' ').append(each.firstOffset()).append('-').append(each.lastOffset());
            if (each.offsetState() == null) {
                text.append(':').append(each.batchState().id()).append('x')
                    .append(each.batchDeliveryCount()).append(each.batchMemberId())
                    .append(each.batchHasOngoingStateTransition() ? "~" : "");
                if (each.batchAcquisitionLockTimeoutTask() != null) {
                    text.append('@').append(each.batchAcquisitionLockTimeoutTask().expirationMs());
                }
            } else {
                for (InFlightState state : each.offsetState().values()) {
                    text.append(',').append(state.state().id()).append('x')
                        .append(state.deliveryCount()).append(state.memberId())
                        .append(state.hasOngoingStateTransition() ? "~" : "");
                    if (state.acquisitionLockTimeoutTask() != null) {
                        text.append('@').append(state.acquisitionLockTimeoutTask().expirationMs());
                    }
                }
            }
        }
        return text.toString();
    }

    private Object call(String name, Object... values) throws Exception {
        for (Method each : partition.getClass().getDeclaredMethods()) {
            if (each.getName().equals(name) && each.getParameterCount() == values.length) {
                each.setAccessible(true);
                try {
                    return each.invoke(partition, values);
                } catch (InvocationTargetException exception) {
                    throw (Exception) exception.getCause();
                }
            }
        }
        throw new NoSuchMethodException(name);
    }
}
