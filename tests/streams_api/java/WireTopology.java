// What Kafka Streams tells the coordinator of a Streams group about a topology.

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestDataJsonConverter;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder;
import org.apache.kafka.streams.processor.internals.StreamThread;

class WireTopology {
    static Method method(Class<?> owner, String name, Class<?>... parameters) throws Exception {
        Method found = owner.getDeclaredMethod(name, parameters);
        found.setAccessible(true);
        return found;
    }

    @SuppressWarnings("unchecked")
    static JsonNode of(Topology topology, Properties properties) throws Exception {
        Field field = Topology.class.getDeclaredField("internalTopologyBuilder");
        field.setAccessible(true);
        InternalTopologyBuilder builder = (InternalTopologyBuilder) field.get(topology);
        StreamsConfig config = new StreamsConfig(properties);
        builder.rewriteTopology(config).buildTopology();
        Object parts = method(StreamThread.class, "initBrokerTopology", StreamsConfig.class, InternalTopologyBuilder.class)
            .invoke(null, config, builder);
        Class<?> state = Class.forName(
            "org.apache.kafka.clients.consumer.internals.StreamsGroupHeartbeatRequestManager$HeartbeatState");
        StreamsGroupHeartbeatRequestData.Topology made = new StreamsGroupHeartbeatRequestData.Topology()
            .setEpoch(0)
            .setSubtopologies((List<StreamsGroupHeartbeatRequestData.Subtopology>)
                method(state, "fromStreamsToHeartbeatRequest", Map.class).invoke(null, parts));
        return StreamsGroupHeartbeatRequestDataJsonConverter.TopologyJsonConverter.write(made, (short) 0, true);
    }
}
