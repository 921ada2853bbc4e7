// Java's regular expressions, and Apache Kafka's rules for names. Each line of the input has a kind and words,
// with tabs between them. The words are the hexadecimal digits of UTF-16. The first output of a line is:
//
// - P pattern replacement text: whether the pattern matches the text, and the text after the replacement, which
//   shows all groups;
// - S rules name: the user of a name of a certificate (SslPrincipalMapper);
// - K realm name rule...: the user of a name of Kerberos (KerberosShortNamer).
//
// `=` and digits is a result, `-` is no user, `!` is an error in the rules, and `?` one in their use.

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.regex.*;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

public class Rules {
    static String decoded(String digits) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < digits.length(); i += 4)
            text.append((char) Integer.parseInt(digits.substring(i, i + 4), 16));
        return text.toString();
    }

    static String encoded(String text) {
        StringBuilder digits = new StringBuilder("=");
        for (char each : text.toCharArray())
            digits.append(String.format("%04x", (int) each));
        return digits.toString();
    }

    static String matched(String text, String replacement, Pattern pattern) {
        try {
            Matcher matcher = pattern.matcher(text);
            String all = matcher.matches() ? "y" : "n";
            return encoded(all + pattern.matcher(text).replaceAll(replacement));
        } catch (RuntimeException | StackOverflowError error) {
            return "?";
        }
    }

    static String answer(String kind, List<String> words) {
        try {
            switch (kind) {
                case "P":
                    return matched(words.get(2), words.get(1), Pattern.compile(words.get(0)));
                case "S":
                    SslPrincipalMapper mapper = SslPrincipalMapper.fromRules(words.get(0));
                    try {
                        return encoded(mapper.getName(words.get(1)));
                    } catch (IOException none) {
                        return "-";
                    } catch (RuntimeException | StackOverflowError error) {
                        return "?";
                    }
                default:
                    KerberosShortNamer namer = KerberosShortNamer.fromUnparsedRules(
                        words.get(0), words.subList(2, words.size()));
                    try {
                        return encoded(namer.shortName(KerberosName.parse(words.get(1))));
                    } catch (IOException none) {
                        return "-";
                    } catch (RuntimeException | StackOverflowError error) {
                        return "?";
                    }
            }
        } catch (RuntimeException | StackOverflowError error) {
            return "!";
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "US-ASCII");
        for (String line; (line = in.readLine()) != null; ) {
            List<String> words = new ArrayList<>(Arrays.asList(line.split("\t", -1)));
            String kind = words.remove(0);
            words.replaceAll(Rules::decoded);
            out.println(answer(kind, words));
        }
        out.flush();
    }
}
