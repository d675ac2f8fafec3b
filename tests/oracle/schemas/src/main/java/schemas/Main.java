package schemas;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Prints random messages and what Kafka reads in their bytes.
 *
 * <p>One line each, its columns separated by tabs; "!" is what Kafka refuses, "-" what is not there:
 * <pre>
 * message KIND NAME VERSION BYTES-TAKEN HEX JSON
 * record KIND TOPIC KEY-HEX VALUE-HEX KEY-JSON VALUE-JSON
 * </pre>
 * KIND is "exact" where the JSON says everything the bytes say, "unknown-tags" where there are tagged fields that no
 * definition has, "explicit-default" where a tagged field was written though it has its default, "damaged" where the
 * bytes were changed at random.
 */
public final class Main {
    private static final HexFormat HEX = HexFormat.of();

    private final Map<String, Definition> definitions;
    private final Map<String, Records.Decoder> decoders;
    private final Random random;
    private final RandomMessages messages;
    private final PrintStream out;
    /** What the lines so far have shown; empty where every line is printed. */
    private final Optional<Features> shown;

    private Main(long seed, boolean select, PrintStream out) throws Exception {
        this.definitions = Definition.all();
        this.decoders = Records.all(definitions);
        this.random = new Random(seed);
        this.messages = new RandomMessages(random);
        this.out = out;
        this.shown = select ? Optional.of(new Features()) : Optional.empty();
    }

    public static void main(String[] args) throws Exception {
        boolean select = args.length == 3 && args[2].equals("select");
        if (args.length != 2 && !select) {
            System.err.println("usage: schemas SEED COUNT [select] (messages of each type and version; select: all of the"
                + " first round, later only messages that show a kind of value not seen before)");
            System.exit(2);
        }
        try (PrintStream out = new PrintStream(new java.io.BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.UTF_8)) {
            Main main = new Main(Long.parseLong(args[0]), select, out);
            for (int i = 0; i < Integer.parseInt(args[1]); i++) {
                if (select && i > 0) {
                    main.selectiveRound(40 + 2 * i);
                } else {
                    main.round();
                }
            }
        }
    }

    /** Every type in every version once, and a record around each that is one. */
    private void round() throws Exception {
        for (Definition definition : definitions.values()) {
            for (int version = definition.firstVersion; version <= definition.lastVersion; version++) {
                printMessages(definition, version);
                switch (definition.type()) {
                    case "coordinator-value" -> printCoordinatorRecords(definition, version);
                    case "metadata" -> printMetadataRecords(definition, version);
                    default -> { }
                }
            }
        }
    }

    /** Messages of every type and version that are not longer, printed where they show something new. */
    private void selectiveRound(int longest) throws Exception {
        for (Definition definition : definitions.values()) {
            for (int version = definition.firstVersion; version <= definition.lastVersion; version++) {
                Message message = message(definition, version);
                byte[] bytes = bytes(message, version);
                if (bytes.length <= longest && shown.get().addAll(definition.name, definition.toJson(message, version))) {
                    printMessage("exact", definition, version, bytes);
                }
            }
        }
    }

    private void printMessages(Definition definition, int version) throws Exception {
        Message random = message(definition, version);
        byte[] exact = bytes(random, version);
        if (shown.isPresent()) {
            shown.get().addAll(definition.name, definition.toJson(random, version));
        }
        printMessage("exact", definition, version, exact);
        printMessage("damaged", definition, version, messages.damage(exact));
        if (definition.isFlexible(version)) {
            Message message = message(definition, version);
            if (messages.addUnknownTaggedFields(message) > 0) {
                printMessage("unknown-tags", definition, version, bytes(message, version));
            }
            for (byte[] tagged : messages.explicitDefaults(definition, version, true)) {
                printMessage("explicit-default", definition, version, tagged);
            }
            for (byte[] tagged : messages.explicitDefaults(definition, version, false)) {
                printMessage("damaged", definition, version, tagged);
            }
        }
    }

    private void printMessage(String kind, Definition definition, int version, byte[] bytes) {
        ByteBufferAccessor input = new ByteBufferAccessor(ByteBuffer.wrap(bytes));
        String json;
        try {
            json = definition.toJson(definition.fromBytes(input, version), version).toString();
        } catch (ReflectiveOperationException e) {
            if (!(e.getCause() instanceof RuntimeException) || !kind.equals("damaged")) {
                throw new IllegalStateException(definition.name, e);
            }
            json = "!";
        }
        String taken = json.equals("!") ? "-" : String.valueOf(input.buffer().position());
        out.println(String.join("\t", "message", kind, definition.name, String.valueOf(version), taken, hex(bytes), json));
    }

    private void printCoordinatorRecords(Definition definition, int version) throws Exception {
        String topic = switch (definition.name) {
            case "TransactionLogValue" -> "__transaction_state";
            case "ShareSnapshotValue", "ShareUpdateValue" -> "__share_group_state";
            default -> "__consumer_offsets";
        };
        Definition keyDefinition = definitions.get(definition.name.replaceAll("Value$", "Key"));
        byte[] key = MessageUtil.toCoordinatorTypePrefixedBytes((ApiMessage) message(keyDefinition, 0));
        byte[] value = MessageUtil.toVersionPrefixedBytes((short) version, recordValue(definition, version));
        printRecord("exact", topic, key, value);
        printRecord("exact", topic, key, null);
        printRecord("damaged", topic, key, messages.damage(value));
        printRecord("damaged", topic, messages.damage(key), value);
    }

    private void printMetadataRecords(Definition definition, int version) throws Exception {
        String topic = definition.name.startsWith("Remote") && !definition.name.matches("Remove.*")
            ? "__remote_log_metadata" : "__cluster_metadata";
        byte[] value = Records.framed((ApiMessage) message(definition, version), version);
        printRecord("exact", topic, null, value);
        printRecord("damaged", topic, null, messages.damage(value));
    }

    /** A random value; members of a consumer group often with something to say to each other. */
    private Message recordValue(Definition definition, int version) throws Exception {
        ObjectNode json = messages.json(definition, version);
        if (definition.name.equals("GroupMetadataValue") && random.nextInt(4) > 0) {
            json.put("protocolType", "consumer");
            for (var member : json.get("members")) {
                ((ObjectNode) member).put("subscription", consumerProtocol("ConsumerProtocolSubscription"));
                ((ObjectNode) member).put("assignment", consumerProtocol("ConsumerProtocolAssignment"));
            }
        }
        return definition.fromJson(json, version);
    }

    /** A message of the consumer protocol, sometimes with another version in front of it, sometimes damaged. */
    private byte[] consumerProtocol(String name) throws Exception {
        Definition definition = definitions.get(name);
        int version = random.nextInt(definition.lastVersion + 1);
        byte[] body = bytes(message(definition, version), version);
        int shown = random.nextInt(4) > 0 ? version : random.nextInt(8) - 2;
        byte[] bytes = ByteBuffer.allocate(2 + body.length).putShort((short) shown).put(body).array();
        return random.nextInt(4) > 0 ? bytes : messages.damage(bytes);
    }

    private void printRecord(String kind, String topic, byte[] key, byte[] value) throws Exception {
        Optional<Records.Shown> shown = decoders.get(topic).decode(key, value);
        if (shown.isEmpty() && kind.equals("exact")) {
            throw new IllegalStateException(topic + " refuses " + hex(key) + " " + hex(value));
        }
        String keyJson = shown.map(s -> s.key().orElse("-")).orElse("!");
        String valueJson = shown.map(s -> s.value().orElse("-")).orElse("!");
        out.println(String.join("\t", "record", kind, topic, hex(key), hex(value), keyJson, valueJson));
    }

    private Message message(Definition definition, int version) throws Exception {
        return definition.fromJson(messages.json(definition, version), version);
    }

    private static byte[] bytes(Message message, int version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, (short) version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "-" : HEX.formatHex(bytes);
    }
}
