// Apache Kafka's users of names of Kerberos. Each line of the input has the default realm, a name, and the
// rules, with tabs between them. The output is the user, or `-` if there is none.

import java.io.*;
import java.util.*;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

public class Names {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        Scanner lines = new Scanner(System.in, "UTF-8").useDelimiter("\n");
        while (lines.hasNext()) {
            List<String> words = Arrays.asList(lines.next().split("\t", -1));
            String user = "-";
            try {
                KerberosShortNamer namer =
                    KerberosShortNamer.fromUnparsedRules(words.get(0), words.subList(2, words.size()));
                user = namer.shortName(KerberosName.parse(words.get(1)));
            } catch (IOException | RuntimeException error) {
                user = "-";
            }
            out.println(user);
        }
        out.flush();
    }
}
