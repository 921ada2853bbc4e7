// Apache Kafka's quotas of clients, with a clock of their own. Each line of the input is a command, with
// words between tabs. `-` is an absent name, `*` the default, `~` a client id of null.
//   new TYPE windows seconds           TYPE: produce, request, mutation
//   limit user client-id value         sets a limit; the value `-` removes it
//   record user client-id value ms     prints for how long the client is throttled, in milliseconds
//   mutate user client-id value ms strict|permissive   prints the throttle time, and `refused` if so
//   key user client-id                 prints the user and the client id of the measurement, and its limit

import java.io.*;
import java.util.*;
import java.util.function.Supplier;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.*;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.*;

public class Quotas {
    static long now = 0;
    static final Time TIME = new Time() {
        public long milliseconds() { return now; }
        public long nanoseconds() { return now * 1_000_000; }
        public void sleep(long ms) { }
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }
    };

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        List<ClientQuotaManager> all = new ArrayList<>();
        ClientQuotaManager manager = null;
        Scanner lines = new Scanner(System.in, "UTF-8").useDelimiter("\n");
        while (lines.hasNext()) {
            String[] words = lines.next().split("\t", -1);
            switch (words[0]) {
                case "new":
                    now = 0;
                    manager = made(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                    all.add(manager);
                    break;
                case "limit":
                    manager.updateQuota(user(words[1]), clientId(words[2]),
                        words[3].equals("-") ? Optional.empty()
                            : Optional.of(Quota.upperBound(Double.parseDouble(words[3]))));
                    break;
                case "record":
                    now = Long.parseLong(words[4]);
                    out.println(manager.maybeRecordAndGetThrottleTimeMs(
                        session(words[1]), id(words[2]), Double.parseDouble(words[3]), now));
                    break;
                case "mutate":
                    now = Long.parseLong(words[4]);
                    ControllerMutationQuotaManager mutations = (ControllerMutationQuotaManager) manager;
                    ControllerMutationQuota quota = words[5].equals("strict")
                        ? mutations.newStrictQuotaFor(session(words[1]), id(words[2]))
                        : mutations.newPermissiveQuotaFor(session(words[1]), id(words[2]));
                    String refused = "";
                    try {
                        quota.record(Double.parseDouble(words[3]));
                    } catch (ThrottlingQuotaExceededException error) {
                        refused = " refused";
                    }
                    out.println(quota.throttleTime() + refused);
                    break;
                case "key":
                    ClientSensors sensors = manager.getOrCreateQuotaSensors(session(words[1]), id(words[2]));
                    double limit = manager.maxValueInQuotaWindow(session(words[1]), id(words[2]));
                    out.println(sensors.metricTags().get("user") + "\t" + sensors.metricTags().get("client-id")
                        + "\t" + limit);
                    break;
            }
        }
        out.flush();
        System.exit(0);
    }

    static ClientQuotaManager made(String type, int windows, int seconds) {
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(windows, seconds);
        Metrics metrics = new Metrics(new MetricConfig(), Collections.emptyList(), TIME);
        switch (type) {
            case "produce":
                return new ClientQuotaManager(config, metrics, QuotaType.PRODUCE, TIME, "");
            case "request":
                return new kafka.server.ClientRequestQuotaManager(config, metrics, TIME, "", Optional.empty());
            default:
                return new ControllerMutationQuotaManager(config, metrics, TIME, "", Optional.empty());
        }
    }

    static Session session(String user) throws Exception {
        return new Session(new KafkaPrincipal("User", user), java.net.InetAddress.getLoopbackAddress());
    }

    static String id(String word) {
        return word.equals("~") ? null : word;
    }

    static Optional<ClientQuotaEntity.ConfigEntity> user(String word) {
        if (word.equals("-")) return Optional.empty();
        return Optional.of(word.equals("*") ? ClientQuotaManager.DEFAULT_USER_ENTITY
            : new ClientQuotaManager.UserEntity(word));
    }

    static Optional<ClientQuotaEntity.ConfigEntity> clientId(String word) {
        if (word.equals("-")) return Optional.empty();
        return Optional.of(word.equals("*") ? ClientQuotaManager.DEFAULT_USER_CLIENT_ID
            : new ClientQuotaManager.ClientIdEntity(word));
    }
}
