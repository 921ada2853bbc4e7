// Apache Kafka's client-side assignors. Each line of the input has these words, with tabs between them:
//
// - the assignor: range, roundrobin, sticky or cooperative-sticky;
// - for each topic: T, its name, and for each partition the racks of its replicas (`a,b`; `-` for a node without one);
// - for each member: M, its id, its instance id or `-`, its rack or `-`, its topics (`a,b` or `-`), the partitions
//   that it owns (`a-0,a-1` or `-`), its generation, and its user data as hex digits or `-`.
//
// The output has the partitions of each member, sorted: `m1=a-0,a-1;m2=`; or `failed` and an exception.

import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.common.*;

public class Assignors {
    static Optional<String> optional(String word) {
        return word.equals("-") ? Optional.empty() : Optional.of(word);
    }

    static List<TopicPartition> partitions(String word) {
        List<TopicPartition> found = new ArrayList<>();
        if (!word.equals("-"))
            for (String each : word.split(",")) {
                int end = each.lastIndexOf('-');
                found.add(new TopicPartition(each.substring(0, end), Integer.parseInt(each.substring(end + 1))));
            }
        return found;
    }

    static ByteBuffer data(String word) {
        return word.equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(word));
    }

    static String answer(String[] words) {
        ConsumerPartitionAssignor assignor = switch (words[0]) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
        List<PartitionInfo> partitions = new ArrayList<>();
        Set<Node> nodes = new HashSet<>();
        Map<String, Subscription> members = new HashMap<>();
        String topic = null;
        int index = 0;
        for (int i = 1; i < words.length; i++) {
            if (words[i].equals("T")) {
                topic = words[++i];
                index = 0;
            } else if (words[i].equals("M")) {
                String id = words[++i];
                Optional<String> instance = optional(words[++i]), rack = optional(words[++i]);
                List<String> topics = words[++i].equals("-") ? List.of() : List.of(words[i].split(","));
                Subscription subscription = new Subscription(
                    topics, data(words[i + 3]), partitions(words[i + 1]), Integer.parseInt(words[i + 2]), rack);
                i += 3;
                subscription.setGroupInstanceId(instance);
                members.put(id, subscription);
            } else {
                List<Node> replicas = new ArrayList<>();
                for (String rack : words[i].split(","))
                    replicas.add(new Node(nodes.size() + 1, "h", 1, rack.equals("-") ? null : rack));
                nodes.addAll(replicas);
                Node[] array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic, index++, array[0], array, array));
            }
        }
        Cluster cluster = new Cluster("c", nodes, partitions, Set.of(), Set.of());
        Map<String, Assignment> found =
            assignor.assign(cluster, new GroupSubscription(members)).groupAssignment();
        return new TreeMap<>(found).entrySet().stream()
            .map(e -> e.getKey() + "=" + e.getValue().partitions().stream()
                .sorted(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition))
                .map(TopicPartition::toString).collect(Collectors.joining(",")))
            .collect(Collectors.joining(";"));
    }

    public static void main(String[] args) throws IOException {
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output =
            new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);  // the assignors log
        for (String line = input.readLine(); line != null; line = input.readLine())
            try {
                output.println(answer(line.split("\t", -1)));
            } catch (RuntimeException problem) {
                output.println("failed " + problem);
            }
        output.flush();
    }
}
