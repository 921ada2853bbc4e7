import com.dynatrace.hash4j.hashing.Hashing;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage.TopicMetadata;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.timeline.SnapshotRegistry;

/** Answers questions, one a line, as Apache Kafka does; see java_oracle.py for what is asked. */
public class GroupOracle {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "hash" -> out.println(
                    Hashing.xxh3_64().hashBytesToLong(HEX.parseHex(words[1])));
                case "topic" -> out.println(topicHash(words));
                case "match" -> out.println(match(words));
                case "begin" -> out.println(begin());
                case "create" -> out.println(topic(words));
                case "remove" -> out.println(remove(words));
                case "update" -> out.println(update(words));
                default -> throw new IllegalArgumentException(words[0]);
            }
        }
        out.flush();
    }

    /** The hash of a topic whose partitions are all held by brokers of the same racks. */
    private static long topicHash(String[] words) {
        List<String> racks = List.of(words).subList(3, words.length);
        TopicMetadata topic = new TopicMetadata() {
            @Override
            public String name() {
                return words[1];
            }

            @Override
            public Uuid id() {
                return uuid("000102030405060708090a0b0c0d0e0f");
            }

            @Override
            public int partitionCount() {
                return Integer.parseInt(words[2]);
            }

            @Override
            public List<String> partitionRacks(int partition) {
                return new ArrayList<>(racks);
            }
        };
        CoordinatorMetadataImage image = (CoordinatorMetadataImage) Proxy.newProxyInstance(
            GroupOracle.class.getClassLoader(),
            new Class<?>[] {CoordinatorMetadataImage.class},
            (proxy, method, arguments) -> Optional.of(topic));
        return Utils.computeTopicHash(words[1], image);
    }

    private static String text(String hex) {
        return new String(HEX.parseHex(hex), StandardCharsets.UTF_8);
    }

    /** For each text 1 or 0; "invalid" for a pattern that is none. */
    private static String match(String[] words) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(text(words[1]));
        } catch (PatternSyntaxException invalid) {
            return "invalid";
        }
        StringBuilder found = new StringBuilder();
        for (int number = 2; number < words.length; number++) {
            found.append(pattern.matcher(text(words[number])).matches() ? '1' : '0');
        }
        return found.toString();
    }

    private static Uuid uuid(String hex) {
        ByteBuffer buffer = ByteBuffer.wrap(HEX.parseHex(hex));
        return new Uuid(buffer.getLong(), buffer.getLong());
    }

    private static String hex(Uuid uuid) {
        return String.format(
            "%016x%016x", uuid.getMostSignificantBits(), uuid.getLeastSignificantBits());
    }

    // -- a group whose targets are computed, step by step --------------------------------------------

    private static ConsumerGroup group;
    private static final Map<String, TopicMetadata> TOPICS = new HashMap<>();

    /** Another group begins, without members. */
    private static String begin() {
        group = new ConsumerGroup(new LogContext(), new SnapshotRegistry(new LogContext()), "group");
        TOPICS.clear();
        return "";
    }

    /** A topic is made, or gets more partitions. */
    private static String topic(String[] words) {
        String name = words[1];
        Uuid id = uuid(words[2]);
        int count = Integer.parseInt(words[3]);
        TOPICS.put(name, new TopicMetadata() {
            @Override
            public String name() {
                return name;
            }

            @Override
            public Uuid id() {
                return id;
            }

            @Override
            public int partitionCount() {
                return count;
            }

            @Override
            public List<String> partitionRacks(int partition) {
                return List.of();
            }
        });
        return "";
    }

    /** A member is gone. */
    private static String remove(String[] words) {
        group.removeTargetAssignment(words[1]);
        group.removeMember(words[1]);
        return "";
    }

    /** A member is new, or wants other topics; all targets are computed and written down. */
    private static String update(String[] words) {
        PartitionAssignor assignor =
            words[1].equals("range") ? new RangeAssignor() : new UniformAssignor();
        ConsumerGroupMember member = new ConsumerGroupMember.Builder(words[3])
            .setInstanceId(words[4].isEmpty() ? null : words[4])
            .setSubscribedTopicNames(words[5].isEmpty() ? List.of() : List.of(words[5].split(",")))
            .build();
        List<CoordinatorRecord> records =
            new TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder("group", 1, assignor)
                .withTime(Time.SYSTEM)
                .withMembers(group.members())
                .withStaticMembers(group.staticMembers())
                .withSubscriptionType(SubscriptionType.valueOf(words[2]))
                .withTargetAssignment(group.targetAssignment())
                .withInvertedTargetAssignment(group.invertedTargetAssignment())
                .withMetadataImage(image())
                .addOrUpdateMember(member.memberId(), member)
                .build()
                .records();
        group.updateMember(member);
        for (CoordinatorRecord record : records) {
            if (record.key() instanceof ConsumerGroupTargetAssignmentMemberKey key) {
                group.updateTargetAssignment(key.memberId(), Assignment.fromRecord(
                    (ConsumerGroupTargetAssignmentMemberValue) record.value().message()));
            }
        }
        StringBuilder text = new StringBuilder();
        new TreeMap<>(group.targetAssignment()).forEach((memberId, target) ->
            text.append(memberId).append(' ').append(render(target)).append('\t'));
        return text.toString();
    }

    private static CoordinatorMetadataImage image() {
        return (CoordinatorMetadataImage) Proxy.newProxyInstance(
            GroupOracle.class.getClassLoader(),
            new Class<?>[] {CoordinatorMetadataImage.class},
            (proxy, method, arguments) -> TOPICS.values().stream()
                .filter(topic -> topic.name().equals(arguments[0])
                    || topic.id().equals(arguments[0]))
                .findAny());
    }

    /** Topics and partitions in the order in which the target has them. */
    private static String render(Assignment target) {
        StringBuilder text = new StringBuilder();
        target.partitions().forEach((id, partitions) -> {
            text.append(text.isEmpty() ? "" : ";").append(hex(id)).append(':');
            text.append(partitions.toString().replaceAll("[\\[\\] ]", ""));
        });
        return text.toString();
    }
}
