// The functions of random topologies, by name (see functions.py).

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.streams.kstream.*;

@SuppressWarnings({"unchecked", "rawtypes"})
class Functions {
    static String text(Object value) {
        if (value == null) return "~";
        if (value instanceof Windowed) {
            Windowed windowed = (Windowed) value;
            return text(windowed.key()) + "@" + windowed.window().start() + "-" + windowed.window().end();
        }
        return value.toString();
    }

    static int hash(Object... values) {
        int sum = 0;
        for (Object value : values) for (char each : text(value).toCharArray()) sum = (sum * 7 + each) % 9973;
        return sum;
    }

    static String tail(String text) {
        return text.length() > 10 ? text.substring(text.length() - 10) : text;
    }

    static boolean predicate(String name, Object key, Object value) {
        switch (name) {
            case "p0": return hash(key, value) % 3 != 0;
            case "p1": return hash(value) % 2 == 0;
            default: return hash(key) % 2 == 0;
        }
    }

    static Object keyOf(String name, Object key, Object value) {
        switch (name) {
            case "k0": return text(value).substring(0, Math.min(1, text(value).length()));
            case "k1": return "x";
            case "k2": return hash(key, value) % 5 == 0 ? null : tail(text(key) + "'");
            default: return tail(text(key));
        }
    }

    static Object valueOf(String name, Object key, Object value) {
        switch (name) {
            case "v0": return tail(text(value) + "a");
            case "v1": return hash(key, value) % 4 == 0 ? null : tail(text(value));
            default: return tail(text(key) + text(value));
        }
    }

    static List<Object> valuesOf(String name, Object key, Object value) {
        List<Object> found = new ArrayList<>();
        String whole = text(value);
        for (int at = 0; at < Math.min(whole.length(), name.equals("f0") ? 3 : hash(key, value) % 3); at++)
            found.add(whole.substring(at, at + 1));
        return found;
    }

    static Object aggregate(String name, Object key, Object value, Object total) {
        switch (name) {
            case "a0": return tail(text(total) + text(value));
            case "a1": return hash(key, value, total) % 6 == 0 ? null : tail(text(total) + text(value));
            default: return tail(text(value) + text(key));
        }
    }

    static Object reduce(String name, Object total, Object value) {
        return name.equals("r1") && hash(total, value) % 6 == 0 ? null : tail(text(total) + text(value));
    }

    static Object join(String name, Object left, Object right) {
        return name.equals("j1") && hash(left, right) % 5 == 0 ? null : tail(text(left) + "+" + text(right));
    }

    static Object foreignKey(Object value) {
        return hash(value) % 5 == 0 ? null : text(value).substring(0, Math.min(1, text(value).length()));
    }
}
