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
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage.TopicMetadata;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

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
                case "assign" -> out.println(assign(words));
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

    private static String assign(String[] words) {
        PartitionAssignor assignor =
            words[1].equals("range") ? new RangeAssignor() : new UniformAssignor();
        boolean homogeneous = words[2].equals("homogeneous");
        Map<Uuid, Integer> topics = new HashMap<>();
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        for (int number = 3; number < words.length; number++) {
            String[] parts = words[number].split(" ", -1);
            if (parts[0].equals("topic")) {
                topics.put(uuid(parts[1]), Integer.valueOf(parts[2]));
            } else {
                member(parts, members, inverted);
            }
        }
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return topics.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
        SubscriptionType type =
            homogeneous ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        Map<String, MemberAssignment> result = assignor.assign(
            new GroupSpecImpl(Collections.unmodifiableMap(members), type, inverted), describer
        ).members();
        StringBuilder found = new StringBuilder();
        new TreeMap<>(result).forEach((memberId, assignment) -> {
            if (!assignment.partitions().isEmpty()) {
                found.append(memberId).append(' ').append(render(assignment)).append('\t');
            }
        });
        return found.toString();
    }

    private static void member(
        String[] parts,
        Map<String, MemberSubscriptionAndAssignmentImpl> members,
        Map<Uuid, Map<Integer, String>> inverted
    ) {
        String memberId = parts[1];
        Optional<String> instanceId = parts[2].isEmpty() ? Optional.empty() : Optional.of(parts[2]);
        Set<Uuid> topicIds = new LinkedHashSet<>();
        for (String each : parts[3].isEmpty() ? new String[0] : parts[3].split(",")) {
            topicIds.add(uuid(each));
        }
        Map<Uuid, Set<Integer>> target = new HashMap<>();
        for (String each : parts[4].isEmpty() ? new String[0] : parts[4].split(";")) {
            String[] topic = each.split(":");
            Set<Integer> partitions = new LinkedHashSet<>();
            for (String partition : topic[1].split(",")) {
                partitions.add(Integer.valueOf(partition));
                inverted.computeIfAbsent(uuid(topic[0]), id -> new HashMap<>())
                    .put(Integer.valueOf(partition), memberId);
            }
            target.put(uuid(topic[0]), new HashSet<>(partitions));
        }
        members.put(memberId, new MemberSubscriptionAndAssignmentImpl(
            Optional.empty(), instanceId, topicIds,
            new Assignment(Collections.unmodifiableMap(target))));
    }

    private static String render(MemberAssignment assignment) {
        Map<String, Set<Integer>> topics = new TreeMap<>();
        assignment.partitions().forEach((id, partitions) ->
            topics.put(hex(id), new TreeSet<>(partitions)));
        StringBuilder text = new StringBuilder();
        topics.forEach((id, partitions) -> {
            text.append(text.isEmpty() ? "" : ";").append(id).append(':');
            text.append(partitions.toString().replaceAll("[\\[\\] ]", ""));
        });
        return text.toString();
    }
}
