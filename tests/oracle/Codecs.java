// Apache Kafka's own codecs behind a pipe.
//
// A request on standard input: an operation, the name of a generated class, a version, then
//   'R' bytes  decode them, encode the result, answer with that
//   'G' seed   make an instance with arbitrary values, answer with its encoding
// An answer: a status (0 fine, 1 refused), then bytes or the reason. Lengths are int32, a name is
// modified UTF-8 as DataOutputStream writes it, everything is big-endian.

import java.io.*;
import java.lang.reflect.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.protocol.types.*;
import org.apache.kafka.common.record.internal.MemoryRecords;

public class Codecs {
    public static void main(String[] arguments) throws Exception {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        System.setOut(System.err);
        int operation;
        while ((operation = in.read()) >= 0) {
            String name = in.readUTF();
            short version = in.readShort();
            byte[] payload = new byte[in.readInt()];
            in.readFully(payload);
            byte[] answer;
            int status = 0;
            try {
                answer = answer(operation, name, version, payload);
            } catch (Throwable problem) {
                Throwable cause = problem.getCause() == null ? problem : problem.getCause();
                status = 1;
                answer = cause.toString().getBytes(StandardCharsets.UTF_8);
            }
            out.writeByte(status);
            out.writeInt(answer.length);
            out.write(answer);
            out.flush();
        }
    }

    static byte[] answer(int operation, String name, short version, byte[] payload)
            throws Exception {
        Class<?> type = Class.forName(name);
        if (operation == 'R') {
            ByteBuffer buffer = ByteBuffer.wrap(payload);
            Message message = (Message) type.getConstructor(org.apache.kafka.common.protocol.Readable.class, short.class)
                .newInstance(new ByteBufferAccessor(buffer), version);
            if (buffer.hasRemaining()) throw new IOException(buffer.remaining() + " bytes left");
            return encode(message, version);
        }
        Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);
        Random random = new Random(ByteBuffer.wrap(payload).getLong());
        return encode((Message) struct(type, schemas[version], random, 0), version);
    }

    static byte[] encode(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) throw new IllegalStateException("size() was wrong");
        return buffer.array();
    }

    // Fields are found by the names that a version's schema has, so absent ones keep their default.
    static Object struct(Class<?> type, Schema schema, Random random, int depth) throws Exception {
        Object made = type.getConstructor().newInstance();
        Map<String, java.lang.reflect.Field> byName = new HashMap<>();
        for (java.lang.reflect.Field field : type.getDeclaredFields())
            byName.put(field.getName().toLowerCase(Locale.ROOT), field);
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                for (org.apache.kafka.common.protocol.types.Field each : tagged.fields().values())
                    if (random.nextBoolean()) set(made, byName, each, random, depth);
            } else {
                set(made, byName, bound.def, random, depth);
            }
        }
        return made;
    }

    static void set(Object made, Map<String, java.lang.reflect.Field> byName,
            org.apache.kafka.common.protocol.types.Field def, Random random, int depth)
            throws Exception {
        java.lang.reflect.Field field = byName.get(def.name.replace("_", ""));
        if (field == null) throw new IllegalStateException(made.getClass() + " lacks " + def.name);
        field.setAccessible(true);
        field.set(made, value(field.getGenericType(), def.type, random, depth));
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static Object value(java.lang.reflect.Type type,
            org.apache.kafka.common.protocol.types.Type schema, Random random, int depth)
            throws Exception {
        if (schema.isNullable() && random.nextInt(4) == 0) return null;
        if (schema.isArray()) {
            Class<?> raw = (Class<?>) (type instanceof ParameterizedType p ? p.getRawType() : type);
            java.lang.reflect.Type element = type instanceof ParameterizedType p
                ? p.getActualTypeArguments()[0]
                : ((ParameterizedType) raw.getGenericSuperclass()).getActualTypeArguments()[0];
            Collection made = raw.isInterface() ? new ArrayList<>()
                : (Collection) raw.getConstructor().newInstance();
            for (int n = random.nextInt(depth < 2 ? 4 : 2); n > 0; n--)
                made.add(value(element, schema.arrayElementType().get(), random, depth + 1));
            return made;
        }
        if (schema instanceof Schema fields)
            return struct((Class<?>) type, fields, random, depth + 1);
        return primitive((Class<?>) type, schema.toString(), random);
    }

    static Object primitive(Class<?> type, String schema, Random random) {
        if (type == boolean.class) return random.nextBoolean();
        if (type == byte.class || type == Byte.class) return (byte) edge(random, Byte.MIN_VALUE, Byte.MAX_VALUE);
        if (type == short.class || type == Short.class) return (short) edge(random, Short.MIN_VALUE, Short.MAX_VALUE);
        if (schema.equals("UINT16")) return (int) edge(random, 0, 65535);
        if (schema.equals("UINT32")) return edge(random, 0, 0xFFFFFFFFL);
        if (type == int.class || type == Integer.class) return (int) edge(random, Integer.MIN_VALUE, Integer.MAX_VALUE);
        if (type == long.class || type == Long.class) return random.nextInt(4) == 0 ? Long.MAX_VALUE : random.nextLong();
        if (type == double.class) return random.nextGaussian();
        if (type == Uuid.class) return new Uuid(random.nextLong(), random.nextLong());
        int length = random.nextInt(30) == 0 ? 300 : random.nextInt(8);
        if (type == String.class) {
            StringBuilder text = new StringBuilder();
            while (length-- > 0) text.appendCodePoint("ab\0\u00e9\u20ac.-".charAt(random.nextInt(7)));
            return random.nextInt(5) == 0 ? text.append("\ud83e\uddf5").toString() : text.toString();
        }
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        if (type == byte[].class) return bytes;
        if (type == ByteBuffer.class) return ByteBuffer.wrap(bytes);
        return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
    }

    static long edge(Random random, long low, long high) {
        int choice = random.nextInt(8);
        return choice == 0 ? low : choice == 1 ? high : low + (long) (random.nextDouble() * (high - low));
    }
}
