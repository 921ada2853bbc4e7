// Calls the methods of Kafka Streams' DSL that the operators of a request name.

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.state.Stores;

@SuppressWarnings({"unchecked", "rawtypes"})
class Operators extends Functions {
    static Materialized materialized(JsonNode op) {
        JsonNode store = op.get("store");
        if (store == null || store.isNull()) return null;
        if (op.has("history"))
            return Materialized.as(Stores.persistentVersionedKeyValueStore(
                store.asText(), Duration.ofMillis(op.get("history").asLong())));
        Materialized made = Materialized.as(store.asText());
        if (op.has("cached") && !op.get("cached").asBoolean()) made = made.withCachingDisabled();
        if (op.has("logged") && !op.get("logged").asBoolean()) made = made.withLoggingDisabled();
        return made;
    }

    static Named named(JsonNode op) {
        return op.has("name") ? Named.as(op.get("name").asText()) : null;
    }

    static Grouped grouped(JsonNode op) {
        Serde value = op.get("type").asText().equals("l") ? Serdes.Long() : Serdes.String();
        return Grouped.with(op.has("name") ? op.get("name").asText() : null, Serdes.String(), value);
    }

    static long number(JsonNode op, String name) {
        return op.get(name).asLong();
    }

    static Windows window(JsonNode w) {
        Duration grace = Duration.ofMillis(number(w, "grace"));
        switch (w.get("kind").asText()) {
            case "tumbling": return TimeWindows.ofSizeAndGrace(Duration.ofMillis(number(w, "size")), grace);
            case "hopping":
                return TimeWindows.ofSizeAndGrace(Duration.ofMillis(number(w, "size")), grace)
                    .advanceBy(Duration.ofMillis(number(w, "advance")));
            default: return UnlimitedWindows.of().startOn(java.time.Instant.ofEpochMilli(number(w, "size")));
        }
    }

    static final Initializer INIT = () -> "";

    static KTable aggregated(Object from, JsonNode op) {
        String kind = op.get("how").asText();
        String fn = op.has("fn") ? op.get("fn").asText() : "";
        Named name = named(op);
        Materialized store = materialized(op);
        Aggregator agg = (key, value, total) -> aggregate(fn, key, value, total);
        Reducer red = (total, value) -> reduce(fn, total, value);
        JsonNode w = op.get("window");
        if (w == null || w.isNull()) {
            KGroupedStream g = (KGroupedStream) from;
            switch (kind) {
                case "count":
                    return store == null ? (name == null ? g.count() : g.count(name))
                        : (name == null ? g.count(store) : g.count(name, store));
                case "reduce":
                    return store == null ? g.reduce(red)
                        : (name == null ? g.reduce(red, store) : g.reduce(red, name, store));
                default:
                    return store == null ? g.aggregate(INIT, agg)
                        : (name == null ? g.aggregate(INIT, agg, store) : g.aggregate(INIT, agg, name, store));
            }
        }
        boolean isFinal = op.has("final") && op.get("final").asBoolean();
        String type = w.get("kind").asText();
        Duration grace = Duration.ofMillis(number(w, "grace"));
        if (type.equals("session")) {
            SessionWindowedKStream g = ((KGroupedStream) from).windowedBy(
                SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(number(w, "size")), grace));
            if (isFinal) g = g.emitStrategy(EmitStrategy.onWindowClose());
            Merger merger = (key, one, two) -> tail(text(one) + text(two));
            switch (kind) {
                case "count": return store == null ? g.count() : g.count(store);
                case "reduce": return store == null ? g.reduce(red) : g.reduce(red, store);
                default: return store == null ? g.aggregate(INIT, agg, merger) : g.aggregate(INIT, agg, merger, store);
            }
        }
        TimeWindowedKStream g = type.equals("sliding")
            ? ((KGroupedStream) from).windowedBy(
                SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(number(w, "size")), grace))
            : ((KGroupedStream) from).windowedBy(window(w));
        if (isFinal) g = g.emitStrategy(EmitStrategy.onWindowClose());
        switch (kind) {
            case "count": return store == null ? g.count() : g.count(store);
            case "reduce": return store == null ? g.reduce(red) : g.reduce(red, store);
            default: return store == null ? g.aggregate(INIT, agg) : g.aggregate(INIT, agg, store);
        }
    }

    static KTable cogrouped(List<Object> nodes, JsonNode op) {
        CogroupedKStream g = null;
        for (int at = 0; at < op.get("from").size(); at++) {
            KGroupedStream part = (KGroupedStream) nodes.get(op.get("from").get(at).asInt());
            String fn = op.get("fns").get(at).asText();
            Aggregator agg = (key, value, total) -> aggregate(fn, key, value, total);
            g = g == null ? part.cogroup(agg) : g.cogroup(part, agg);
        }
        Materialized store = materialized(op);
        if (store == null) store = Materialized.with(Serdes.String(), Serdes.String());
        else store = store.withKeySerde(Serdes.String());
        JsonNode w = op.get("window");
        if (w == null || w.isNull()) return g.aggregate(INIT, store);
        Duration grace = Duration.ofMillis(number(w, "grace"));
        String type = w.get("kind").asText();
        if (type.equals("session")) {
            Merger merger = (key, one, two) -> tail(text(one) + text(two));
            SessionWindowedCogroupedKStream s = g.windowedBy(
                SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(number(w, "size")), grace));
            return s.aggregate(INIT, merger, store);
        }
        TimeWindowedCogroupedKStream t = type.equals("sliding")
            ? g.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(number(w, "size")), grace))
            : g.windowedBy(window(w));
        return t.aggregate(INIT, store);
    }

    static Object joined(List<Object> nodes, JsonNode op) {
        Object left = nodes.get(op.get("from").get(0).asInt());
        Object right = nodes.get(op.get("from").get(1).asInt());
        String fn = op.get("fn").asText();
        String how = op.get("how").asText();
        ValueJoiner joiner = (one, two) -> join(fn, one, two);
        Materialized store = materialized(op);
        switch (op.get("op").asText()) {
            case "join_streams": {
                JoinWindows w = JoinWindows.ofTimeDifferenceAndGrace(
                        Duration.ofMillis(0), Duration.ofMillis(number(op, "grace")))
                    .before(Duration.ofMillis(number(op, "before")))
                    .after(Duration.ofMillis(number(op, "after")));
                KStream one = (KStream) left, two = (KStream) right;
                StreamJoined with = StreamJoined.with(null, null, null);
                if (op.has("name")) with = with.withName(op.get("name").asText());
                if (op.has("store") && !op.get("store").isNull()) with = with.withStoreName(op.get("store").asText());
                return how.equals("inner") ? one.join(two, joiner, w, with)
                    : how.equals("left") ? one.leftJoin(two, joiner, w, with) : one.outerJoin(two, joiner, w, with);
            }
            case "join_table": {
                KStream one = (KStream) left;
                Joined with = Joined.with(null, null, null);
                if (op.has("grace") && !op.get("grace").isNull())
                    with = with.withGracePeriod(Duration.ofMillis(number(op, "grace")));
                return how.equals("inner") ? one.join((KTable) right, joiner, with)
                    : one.leftJoin((KTable) right, joiner, with);
            }
            case "join_global": {
                KStream one = (KStream) left;
                String mapper = op.get("mapper").asText();
                KeyValueMapper chooser = (key, value) -> keyOf(mapper, key, value);
                return how.equals("inner") ? one.join((GlobalKTable) right, chooser, joiner)
                    : one.leftJoin((GlobalKTable) right, chooser, joiner);
            }
            case "join_tables": {
                KTable one = (KTable) left, two = (KTable) right;
                if (store == null)
                    return how.equals("inner") ? one.join(two, joiner)
                        : how.equals("left") ? one.leftJoin(two, joiner) : one.outerJoin(two, joiner);
                return how.equals("inner") ? one.join(two, joiner, store)
                    : how.equals("left") ? one.leftJoin(two, joiner, store) : one.outerJoin(two, joiner, store);
            }
            default: {
                KTable one = (KTable) left, two = (KTable) right;
                java.util.function.Function extractor = value -> foreignKey(value);
                if (store == null)
                    return how.equals("inner") ? one.join(two, extractor, joiner)
                        : one.leftJoin(two, extractor, joiner);
                return how.equals("inner") ? one.join(two, extractor, joiner, store)
                    : one.leftJoin(two, extractor, joiner, store);
            }
        }
    }

    static void build(StreamsBuilder builder, JsonNode topology) {
        List<Object> nodes = new ArrayList<>();
        for (JsonNode op : topology) {
            String kind = op.get("op").asText();
            if (kind.equals("part")) continue; // a place of the split before it
            String fn = op.has("fn") ? op.get("fn").asText() : "";
            Object from = op.has("from") && op.get("from").isInt() ? nodes.get(op.get("from").asInt()) : null;
            KStream s = from instanceof KStream ? (KStream) from : null;
            KTable t = from instanceof KTable ? (KTable) from : null;
            Named name = named(op);
            Object made = null;
            switch (kind) {
                case "stream": {
                    List<String> topics = new ArrayList<>();
                    for (JsonNode each : op.get("topics")) topics.add(each.asText());
                    Consumed consumed = Consumed.with(Serdes.String(), Serdes.String());
                    if (op.has("name")) consumed = consumed.withName(op.get("name").asText());
                    if (op.has("extractor"))
                        consumed = consumed.withTimestampExtractor((record, time) ->
                            hash(record.value()) % 5 == 0 ? -1L : hash(record.value()) % 5 == 1 ? Math.max(0, time)
                                : record.timestamp() + hash(record.value()) % 7);
                    made = builder.stream(topics, consumed);
                    break;
                }
                case "table": {
                    Consumed consumed = Consumed.with(Serdes.String(), Serdes.String());
                    if (op.has("name")) consumed = consumed.withName(op.get("name").asText());
                    Materialized store = materialized(op);
                    made = store == null ? builder.table(op.get("topic").asText(), consumed)
                        : builder.table(op.get("topic").asText(), consumed, store);
                    break;
                }
                case "global": {
                    Materialized store = materialized(op);
                    Consumed consumed = Consumed.with(Serdes.String(), Serdes.String());
                    made = store == null ? builder.globalTable(op.get("topic").asText(), consumed)
                        : builder.globalTable(op.get("topic").asText(), consumed, store);
                    break;
                }
                case "filter": {
                    Predicate p = (key, value) -> predicate(fn, key, value);
                    made = name == null ? s.filter(p) : s.filter(p, name);
                    break;
                }
                case "filter_not": {
                    Predicate p = (key, value) -> predicate(fn, key, value);
                    made = name == null ? s.filterNot(p) : s.filterNot(p, name);
                    break;
                }
                case "map": {
                    KeyValueMapper m = (key, value) -> KeyValue.pair(keyOf(fn, key, value), valueOf("v0", key, value));
                    made = name == null ? s.map(m) : s.map(m, name);
                    break;
                }
                case "map_values": {
                    ValueMapperWithKey m = (key, value) -> valueOf(fn, key, value);
                    made = name == null ? s.mapValues(m) : s.mapValues(m, name);
                    break;
                }
                case "flat_map": {
                    made = s.flatMap((KeyValueMapper) (key, value) -> {
                        List<KeyValue> found = new ArrayList<>();
                        for (Object each : valuesOf(fn, key, value)) found.add(KeyValue.pair(each, tail(text(value))));
                        return found;
                    });
                    break;
                }
                case "flat_map_values": {
                    made = s.flatMapValues((ValueMapperWithKey) (key, value) -> valuesOf(fn, key, value));
                    break;
                }
                case "select_key": {
                    KeyValueMapper m = (key, value) -> keyOf(fn, key, value);
                    made = name == null ? s.selectKey(m) : s.selectKey(m, name);
                    break;
                }
                case "peek": {
                    made = s.peek((key, value) -> { });
                    break;
                }
                case "merge": {
                    KStream one = (KStream) nodes.get(op.get("from").get(0).asInt());
                    KStream two = (KStream) nodes.get(op.get("from").get(1).asInt());
                    made = name == null ? one.merge(two) : one.merge(two, name);
                    break;
                }
                case "split": {
                    Map<String, KStream> branches = (name == null ? s.split() : s.split(name))
                        .branch((key, value) -> predicate("p1", key, value), Branched.as("one"))
                        .branch((key, value) -> predicate("p2", key, value), Branched.as("two"))
                        .defaultBranch(Branched.as("rest"));
                    Map<String, KStream> byEnd = new HashMap<>();
                    for (Map.Entry<String, KStream> each : branches.entrySet())
                        for (String end : new String[] {"one", "two", "rest"})
                            if (each.getKey().endsWith(end)) byEnd.put(end, each.getValue());
                    nodes.add(byEnd.get("one"));
                    nodes.add(byEnd.get("two"));
                    made = byEnd.get("rest");
                    break;
                }
                case "repartition": {
                    made = op.has("name") ? s.repartition(Repartitioned.as(op.get("name").asText())) : s.repartition();
                    break;
                }
                case "to": {
                    if (op.has("name")) s.to(op.get("topic").asText(), Produced.as(op.get("name").asText()));
                    else s.to(op.get("topic").asText());
                    break;
                }
                case "to_table": {
                    Materialized store = materialized(op);
                    made = store == null ? (name == null ? s.toTable() : s.toTable(name))
                        : (name == null ? s.toTable(store) : s.toTable(name, store));
                    break;
                }
                case "group_by": {
                    KeyValueMapper m = (key, value) -> keyOf(fn, key, value);
                    made = s.groupBy(m, grouped(op));
                    break;
                }
                case "group_by_key": {
                    made = s.groupByKey(grouped(op));
                    break;
                }
                case "aggregate": {
                    made = aggregated(from, op);
                    break;
                }
                case "cogroup": {
                    made = cogrouped(nodes, op);
                    break;
                }
                case "table_filter": {
                    Predicate p = (key, value) -> predicate(fn, key, value);
                    Materialized store = materialized(op);
                    made = store == null ? (name == null ? t.filter(p) : t.filter(p, name)) : t.filter(p, store);
                    break;
                }
                case "table_map_values": {
                    ValueMapperWithKey m = (key, value) -> valueOf(fn, key, value);
                    Materialized store = materialized(op);
                    made = store == null ? (name == null ? t.mapValues(m) : t.mapValues(m, name))
                        : t.mapValues(m, store);
                    break;
                }
                case "to_stream": {
                    made = name == null ? t.toStream() : t.toStream(name);
                    break;
                }
                case "suppress": {
                    Suppressed.BufferConfig eager = op.has("max")
                        ? Suppressed.BufferConfig.maxRecords(number(op, "max")) : Suppressed.BufferConfig.unbounded();
                    Suppressed how = op.get("wait").isNull()
                        ? Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())
                        : Suppressed.untilTimeLimit(Duration.ofMillis(number(op, "wait")), eager);
                    made = t.suppress(op.has("name") ? how.withName(op.get("name").asText()) : how);
                    break;
                }
                case "table_group_by": {
                    KeyValueMapper m = (key, value) -> KeyValue.pair(keyOf(fn, key, value), valueOf("v1", key, value));
                    made = op.has("name") ? t.groupBy(m, Grouped.as(op.get("name").asText())) : t.groupBy(m);
                    break;
                }
                case "table_aggregate": {
                    KGroupedTable g = (KGroupedTable) from;
                    Materialized store = materialized(op);
                    Aggregator add = (key, value, total) -> aggregate(fn, key, value, total);
                    Aggregator sub = (key, value, total) -> aggregate("a1", key, "-" + text(value), total);
                    Reducer plus = (total, value) -> reduce(fn, total, value);
                    Reducer minus = (total, value) -> reduce("r1", total, "-" + text(value));
                    switch (op.get("how").asText()) {
                        case "count": made = store == null ? g.count() : g.count(store); break;
                        case "reduce": made = store == null ? g.reduce(plus, minus) : g.reduce(plus, minus, store); break;
                        default:
                            made = store == null ? g.aggregate(INIT, add, sub) : g.aggregate(INIT, add, sub, store);
                    }
                    break;
                }
                case "process": {
                    String store = op.get("store").asText();
                    builder.addStateStore(Stores.keyValueStoreBuilder(
                        Stores.inMemoryKeyValueStore(store), Serdes.String(), Serdes.String()));
                    boolean byStreamTime = op.get("stream_time").asBoolean();
                    long interval = number(op, "interval");
                    ProcessorSupplier<Object, Object, Object, Object> supplier =
                        () -> new Counting(store, interval, byStreamTime);
                    made = s.process(supplier, store);
                    break;
                }
                default:
                    made = joined(nodes, op);
            }
            nodes.add(made);
        }
    }
}
