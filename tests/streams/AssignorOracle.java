import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Assigns tasks as Apache Kafka does, one group a line: the number of standby replicas, the
 * subtopologies (`id:tasks:1` or `id:tasks:0`, by commas) and then one word for each member, in the
 * order in which they are put into the table: `member|process|active|standby|offsets`, where tasks
 * are `id_partition` by commas. The answer has `member|active|standby` for each member.
 */
public class AssignorOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split("\t", -1)));
        }
        out.flush();
    }

    private static String answer(String[] words) {
        Map<String, Integer> counts = new LinkedHashMap<>();
        Set<String> stateful = new HashSet<>();
        for (String each : words[1].split(",")) {
            String[] parts = each.split(":");
            counts.put(parts[0], Integer.parseInt(parts[1]));
            if (parts[2].equals("1")) stateful.add(parts[0]);
        }
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        for (int number = 2; number < words.length; number++) {
            String[] parts = words[number].split("\\|", -1);
            members.put(parts[0], new MemberMetadataAndStateImpl(
                Optional.empty(), Optional.empty(), parts[1], Map.of(), tasks(parts[2]),
                tasks(parts[3]), Map.of(), offsets(parts[4]), Map.of()));
        }
        TopologyDescriber topology = new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                return new ArrayList<>(counts.keySet());
            }

            @Override
            public int maxNumInputPartitions(String id) {
                return counts.get(id);
            }

            @Override
            public boolean isStateful(String id) {
                return stateful.contains(id);
            }
        };
        GroupAssignment found = new StickyTaskAssignor().assign(
            new GroupSpecImpl(members, AssignmentConfigsImpl.fromMap(Map.of("num.standby.replicas", words[0]))),
            topology);
        List<String> answers = new ArrayList<>();
        new TreeMap<>(found.members()).forEach((id, tasks) -> answers.add(
            id + "|" + text(tasks.activeTasks()) + "|" + text(tasks.standbyTasks())));
        return String.join("\t", answers);
    }

    private static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> found = new HashMap<>();
        for (String each : text.split(",")) {
            if (each.isEmpty()) continue;
            int bar = each.lastIndexOf('_');
            found.computeIfAbsent(each.substring(0, bar), id -> new HashSet<>())
                .add(Integer.parseInt(each.substring(bar + 1)));
        }
        return found;
    }

    /** Offsets are `id_partition=offset` by commas. */
    private static Map<String, Map<Integer, Long>> offsets(String text) {
        Map<String, Map<Integer, Long>> found = new HashMap<>();
        for (String each : text.split(",")) {
            if (each.isEmpty()) continue;
            int bar = each.lastIndexOf('_');
            int equals = each.indexOf('=');
            found.computeIfAbsent(each.substring(0, bar), id -> new HashMap<>())
                .put(Integer.parseInt(each.substring(bar + 1, equals)),
                    Long.parseLong(each.substring(equals + 1)));
        }
        return found;
    }

    private static String text(Map<String, Set<Integer>> tasks) {
        List<String> found = new ArrayList<>();
        new TreeMap<>(tasks).forEach((id, partitions) ->
            new TreeSet<>(partitions).forEach(each -> found.add(id + "_" + each)));
        return String.join(",", found);
    }
}
