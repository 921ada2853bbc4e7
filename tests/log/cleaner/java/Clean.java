import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Apache Kafka's own cleaner over a partition's directory, one round for each line of input.
 *
 * A line, parted by tabs: directory, the time, first dirty offset, the first offset that may not be cleaned,
 * bytes of the map, load factor, then settings as name=value.
 * The answer: next offset, first uncleanable offset, ratio, milliseconds, bytes read, bytes written.
 */
public class Clean {
    public static void main(String[] none) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                System.out.println(clean(line.split("\t")));
            } catch (Exception | Error failure) {
                failure.printStackTrace();
                System.exit(1);
            }
        }
        System.exit(0);
    }

    private static String clean(String[] args) throws Exception {
        File directory = new File(args[0]);
        long now = Long.parseLong(args[1]);
        Map<String, String> settings = new HashMap<>();
        for (int i = 6; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        UnifiedLog log = open(directory, new LogConfig(settings), now);
        log.updateHighWatermark(log.logEndOffset());
        LogToClean part =
            new LogToClean(log, Long.parseLong(args[2]), Long.parseLong(args[3]), false);
        Cleaner cleaner = new Cleaner(
            0,
            new SkimpyOffsetMap(Integer.parseInt(args[4])),
            524288 / 2,
            1 << 20,
            Double.parseDouble(args[5]),
            new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM),
            Time.SYSTEM,
            partition -> { });
        long started = System.nanoTime();
        Map.Entry<Long, CleanerStats> done = cleaner.doClean(part, now);
        long elapsed = (System.nanoTime() - started) / 1_000_000;
        CleanerStats stats = done.getValue();
        log.close();
        return String.format(
            "%d %d %.9f %d %d %d",
            done.getKey(),
            part.firstUncleanableOffset(),
            part.cleanableRatio(),
            elapsed,
            stats.bytesRead(),
            stats.bytesWritten());
    }

    private static UnifiedLog open(File directory, LogConfig config, long now) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        return UnifiedLog.create(
            directory,
            config,
            0,
            0,
            scheduler,
            new BrokerTopicStats(),
            timeAt(now),
            900_000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false),
            600_000,
            new LogDirFailureChannel(1),
            true,
            Optional.empty());
    }

    /** A clock that stands still, so that no producer expires. */
    private static Time timeAt(long now) {
        return (Time) Proxy.newProxyInstance(
            Time.class.getClassLoader(),
            new Class<?>[] {Time.class},
            (proxy, method, arguments) -> method.getName().equals("milliseconds")
                ? now
                : method.invoke(Time.SYSTEM, arguments));
    }
}
