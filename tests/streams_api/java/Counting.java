// The processor of random topologies (see processors.py).

import java.time.Duration;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/** Counts records in a store, and forwards what punctuators find there. */
class Counting extends Functions implements Processor<Object, Object, Object, Object> {
    final String store;
    final long interval;
    final boolean byStreamTime;
    ProcessorContext<Object, Object> context;
    KeyValueStore<String, String> counts;
    Cancellable cancellable;
    int calls = 0;

    Counting(String store, long interval, boolean byStreamTime) {
        this.store = store;
        this.interval = interval;
        this.byStreamTime = byStreamTime;
    }

    @Override
    public void init(ProcessorContext<Object, Object> context) {
        this.context = context;
        counts = context.getStateStore(store);
        cancellable = context.schedule(Duration.ofMillis(interval),
            byStreamTime ? PunctuationType.STREAM_TIME : PunctuationType.WALL_CLOCK_TIME, this::punctuate);
    }

    @Override
    public void process(Record<Object, Object> record) {
        String key = text(record.key());
        String before = counts.get(key);
        String now = tail((before == null ? "" : before) + text(record.value()));
        counts.put(key, now);
        if (hash(record.key(), record.value()) % 4 == 0) counts.delete(key);
        RecordHeaders headers = new RecordHeaders(record.headers());
        headers.add("n", new byte[] {(byte) now.length()});
        context.forward(record.withValue(now).withHeaders(headers));
    }

    void punctuate(long time) {
        calls++;
        try (KeyValueIterator<String, String> all = counts.all()) {
            while (all.hasNext()) {
                KeyValue<String, String> each = all.next();
                context.forward(new Record<>(each.key, tail(each.value + "#" + calls), time));
            }
        }
        if (calls == 4) cancellable.cancel();
    }
}
