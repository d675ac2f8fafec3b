package schemas;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/** Random messages, from nothing but a definition and a stream of random numbers. */
final class RandomMessages {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final String[] TEXTS = {"", "a", "consumer", "orders-0", "\u00e9\u4e2d\ud83d\ude00", "\"\\\n\u0001", "x y"};

    private final Random random;

    RandomMessages(Random random) {
        this.random = random;
    }

    /** A random message of a definition, as the JSON that Kafka's converters read. */
    ObjectNode json(Definition definition, int version) {
        return fields(definition, definition.json.get("fields"), version);
    }

    private ObjectNode fields(Definition definition, JsonNode fields, int version) {
        ObjectNode node = new ObjectNode(JSON);
        for (JsonNode field : fields) {
            boolean tagged = field.has("taggedVersions");
            String versions = field.has("versions") ? field.get("versions").asText() : field.get("taggedVersions").asText();
            if (!contains(versions, version) || tagged && random.nextBoolean()) {
                continue;
            }
            String name = jsonName(field);
            boolean nullable = field.has("nullableVersions") && contains(field.get("nullableVersions").asText(), version);
            if (nullable && random.nextInt(4) == 0) {
                node.putNull(name);
            } else {
                node.set(name, value(definition, field, field.get("type").asText(), version));
            }
        }
        return node;
    }

    private static String jsonName(JsonNode field) {
        String name = field.get("name").asText();
        return name.substring(0, 1).toLowerCase() + name.substring(1);
    }

    private JsonNode value(Definition definition, JsonNode field, String type, int version) {
        if (type.startsWith("[]")) {
            ArrayNode array = new ArrayNode(JSON);
            int count = random.nextInt(4);
            for (int i = 0; i < count; i++) {
                array.add(value(definition, field, type.substring(2), version));
            }
            return array;
        }
        return switch (type) {
            case "bool" -> JSON.booleanNode(random.nextBoolean());
            case "int8" -> JSON.numberNode((short) (byte) integer(8));
            case "int16" -> JSON.numberNode((short) integer(16));
            case "uint16" -> JSON.numberNode((int) (integer(16) & 0xffff));
            case "int32" -> JSON.numberNode((int) integer(32));
            case "uint32" -> JSON.numberNode(integer(32) & 0xffffffffL);
            case "int64" -> JSON.numberNode(integer(64));
            case "float64" -> JSON.numberNode(float64());
            case "uuid" -> JSON.textNode(uuid().toString());
            case "string" -> JSON.textNode(text());
            case "bytes" -> JSON.binaryNode(bytes());
            default -> fields(definition, structFields(definition, field, type), version);
        };
    }

    private static JsonNode structFields(Definition definition, JsonNode field, String type) {
        if (field.has("fields")) {
            return field.get("fields");
        }
        for (JsonNode struct : definition.json.get("commonStructs")) {
            if (struct.get("name").asText().equals(type)) {
                return struct.get("fields");
            }
        }
        throw new IllegalStateException(definition.name + " has no struct " + type);
    }

    private static boolean contains(String versions, int version) {
        if (versions.equals("none")) {
            return false;
        }
        String[] ends = versions.replace("+", "-" + Short.MAX_VALUE).split("-");
        return Integer.parseInt(ends[0]) <= version && version <= Integer.parseInt(ends[ends.length - 1]);
    }

    /** Random bits, cut by the caller; often one of the numbers where something changes. */
    private long integer(int bits) {
        return switch (random.nextInt(6)) {
            case 0 -> 0;
            case 1 -> -1;
            case 2 -> random.nextInt(100);
            case 3 -> 1L << (bits - 1);
            case 4 -> (1L << (bits - 1)) - 1;
            default -> random.nextLong();
        };
    }

    private double float64() {
        return switch (random.nextInt(8)) {
            case 0 -> 0.0;
            case 1 -> -0.0;
            case 2 -> Double.NaN;
            case 3 -> random.nextBoolean() ? Double.POSITIVE_INFINITY : Double.NEGATIVE_INFINITY;
            case 4 -> random.nextInt(1000000);
            case 5 -> Double.MIN_VALUE;
            default -> random.nextGaussian() * Math.pow(10, random.nextInt(40) - 20);
        };
    }

    private Uuid uuid() {
        return random.nextInt(4) == 0 ? Uuid.ZERO_UUID : new Uuid(random.nextLong(), random.nextLong());
    }

    private String text() {
        if (random.nextInt(100) == 0) {
            // Long enough for two bytes of compact length.
            return "long".repeat(32 + random.nextInt(32));
        }
        return TEXTS[random.nextInt(TEXTS.length)];
    }

    private byte[] bytes() {
        byte[] bytes = new byte[random.nextInt(6)];
        random.nextBytes(bytes);
        return bytes;
    }

    /** Gives a message, and each struct in it, unknown tagged fields. How many there are now. */
    int addUnknownTaggedFields(Message message) throws Exception {
        int added = 0;
        for (int tag = 100; random.nextInt(3) > 0; tag += 1 + random.nextInt(200)) {
            message.unknownTaggedFields().add(new RawTaggedField(tag, bytes()));
            added++;
        }
        for (Field field : message.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers())) {
                continue;
            }
            field.setAccessible(true);
            Object value = field.get(message);
            if (value instanceof Message struct) {
                added += addUnknownTaggedFields(struct);
            } else if (value instanceof Collection<?> elements) {
                for (Object element : elements) {
                    added += element instanceof Message struct ? addUnknownTaggedFields(struct) : 0;
                }
            }
        }
        return added;
    }

    /**
     * For each tagged field of the message itself: a message that has it, with the default as its value. Either of the
     * fields that this version has, or of those that it has not.
     */
    List<byte[]> explicitDefaults(Definition definition, int version, boolean known) throws Exception {
        List<byte[]> all = new ArrayList<>();
        for (JsonNode field : definition.json.get("fields")) {
            if (!field.has("taggedVersions") || contains(field.get("taggedVersions").asText(), version) != known) {
                continue;
            }
            ObjectNode json = json(definition, version);
            for (JsonNode other : definition.json.get("fields")) {
                if (other.has("taggedVersions")) {
                    json.remove(jsonName(other));
                }
            }
            // Without tagged fields a message ends with their number, 0.
            ByteBuffer plain = MessageUtil.toByteBufferAccessor(definition.fromJson(json, version), (short) version).buffer();
            byte[] value = defaultBytes(field);
            all.add(ByteBuffer.allocate(plain.remaining() + 2 + value.length).put(plain.slice(0, plain.remaining() - 1))
                .put((byte) 1).put((byte) field.get("tag").asInt()).put((byte) value.length).put(value).array());
        }
        return all;
    }

    private static byte[] defaultBytes(JsonNode field) {
        String type = field.get("type").asText();
        String text = field.has("default") && !field.get("default").isNull() ? field.get("default").asText() : "";
        if (text.equals("null")) {
            return new byte[] {0};
        }
        long number = text.isEmpty() || text.equals("false") ? 0 : Long.parseLong(text);
        return switch (type) {
            case "bool", "int8" -> new byte[] {(byte) number};
            case "int16" -> ByteBuffer.allocate(2).putShort((short) number).array();
            case "int32" -> ByteBuffer.allocate(4).putInt((int) number).array();
            case "int64" -> ByteBuffer.allocate(8).putLong(number).array();
            case "uuid" -> new byte[16];
            // Of a struct its marker and what all zeros are, of an array or a string the length 0.
            case "ClassicMemberMetadata" -> new byte[] {1, 0, 0, 0, 0, 1, 0};
            default -> new byte[] {1};
        };
    }

    /** The bytes with one to three random changes: other values, cuts, insertions. */
    byte[] damage(byte[] original) {
        byte[] bytes = original;
        for (int changes = 1 + random.nextInt(3); changes > 0; changes--) {
            int at = bytes.length == 0 ? 0 : random.nextInt(bytes.length);
            bytes = switch (random.nextInt(6)) {
                case 0 -> Arrays.copyOf(bytes, at);
                case 1 -> insert(bytes, bytes.length);
                case 2 -> insert(bytes, at);
                default -> bytes.length == 0 ? insert(bytes, 0) : change(bytes, at);
            };
        }
        return bytes;
    }

    private byte[] change(byte[] original, int at) {
        byte[] bytes = original.clone();
        bytes[at] = randomByte();
        return bytes;
    }

    private byte[] insert(byte[] original, int at) {
        byte[] bytes = new byte[original.length + 1];
        System.arraycopy(original, 0, bytes, 0, at);
        bytes[at] = randomByte();
        System.arraycopy(original, at, bytes, at + 1, original.length - at);
        return bytes;
    }

    private byte randomByte() {
        // The last ones are parts of malformed and of well-formed UTF-8.
        int[] often = {0, 1, 2, 0x7f, 0x80, 0xff, 0xc0, 0xc3, 0xe0, 0xed, 0xa0, 0xbf, 0xf0, 0xf4};
        return (byte) (random.nextBoolean() ? often[random.nextInt(often.length)] : random.nextInt(256));
    }
}
