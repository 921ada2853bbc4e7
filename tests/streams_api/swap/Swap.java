import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

/** Runs the word count, or the join of views and clicks, until it is stopped: bootstrap, which, state directory. */
public final class Swap {
    public static void main(String[] arguments) throws Exception {
        String which = arguments[1];
        StreamsBuilder builder = new StreamsBuilder();
        var strings = Serdes.String();
        if (which.equals("words")) {
            builder.stream("lines", Consumed.with(strings, strings))
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(strings, strings))
                .count(Materialized.as("counts"))
                .toStream()
                .to("out", Produced.with(strings, Serdes.Long()));
        } else {
            var views = builder.stream("views", Consumed.with(strings, strings));
            var clicks = builder.stream("clicks", Consumed.with(strings, strings));
            views.leftJoin(
                    clicks,
                    (view, click) -> view + "/" + click,
                    JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofHours(1)),
                    StreamJoined.with(strings, strings, strings))
                .to("out", Produced.with(strings, strings));
        }
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, which);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "50");
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "2000");
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), "500");
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), "3000");
        KafkaStreams application = new KafkaStreams(builder.build(), settings);
        CountDownLatch stopped = new CountDownLatch(1);
        application.setStateListener((now, before) -> System.err.println("STATE " + now));
        application.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
                .StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            application.close(Duration.ofSeconds(30));
            stopped.countDown();
        }));
        application.start();
        stopped.await();
    }
}
