package schemas;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.Readable;

/** One message definition of a Kafka jar, with the classes that Kafka generated from it. */
final class Definition {
    /** Not stored in a log directory as bytes: a principal in requests, a file that is JSON. */
    private static final Set<String> LEFT_OUT = Set.of("DefaultPrincipalData", "QuorumStateData");
    private static final Set<String> RPC = Set.of("request", "response", "header");

    final String name;
    final JsonNode json;
    final int firstVersion;
    final int lastVersion;
    private final int flexibleSince;
    private final Class<?> messageClass;
    private final Class<?> converterClass;

    private Definition(JsonNode json, Class<?> messageClass, Class<?> converterClass) {
        this.json = json;
        this.name = json.get("name").asText();
        String[] valid = json.get("validVersions").asText().split("-");
        this.firstVersion = Integer.parseInt(valid[0]);
        this.lastVersion = Integer.parseInt(valid[valid.length - 1]);
        String flexible = json.get("flexibleVersions").asText();
        this.flexibleSince = flexible.equals("none") ? Integer.MAX_VALUE : Integer.parseInt(flexible.replace("+", ""));
        this.messageClass = messageClass;
        this.converterClass = converterClass;
    }

    /** All definitions in the Kafka jars of the class path that are no requests and responses, by name. */
    static Map<String, Definition> all() throws Exception {
        ObjectMapper mapper = new ObjectMapper().configure(JsonParser.Feature.ALLOW_COMMENTS, true);
        Map<String, String> classes = new HashMap<>();
        List<JsonNode> definitions = new ArrayList<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!new File(path).getName().startsWith("kafka-")) {
                continue;
            }
            try (JarFile jar = new JarFile(path)) {
                for (JarEntry entry : Collections.list(jar.entries())) {
                    String file = entry.getName();
                    if (file.endsWith("JsonConverter.class") && !file.contains("$")) {
                        String simple = file.substring(file.lastIndexOf('/') + 1, file.length() - "JsonConverter.class".length());
                        classes.put(simple, file.substring(0, file.lastIndexOf('/') + 1).replace('/', '.') + simple);
                    } else if (file.matches("(common/)?(message|metadata)/[A-Za-z]+\\.json")) {
                        try (InputStream in = jar.getInputStream(entry)) {
                            definitions.add(mapper.readTree(in));
                        }
                    }
                }
            }
        }
        Map<String, Definition> byName = new TreeMap<>();
        for (JsonNode json : definitions) {
            String name = json.get("name").asText();
            if (json.has("validVersions") && !RPC.contains(json.get("type").asText()) && !LEFT_OUT.contains(name)) {
                String className = classes.get(name);
                byName.put(name, new Definition(json, Class.forName(className), Class.forName(className + "JsonConverter")));
            }
        }
        return byName;
    }

    boolean isFlexible(int version) {
        return version >= flexibleSince;
    }

    int apiKey() {
        return json.get("apiKey").asInt();
    }

    String type() {
        return json.get("type").asText();
    }

    /** The message Kafka makes of JSON. */
    Message fromJson(JsonNode node, int version) throws ReflectiveOperationException {
        return (Message) converterClass.getMethod("read", JsonNode.class, short.class).invoke(null, node, (short) version);
    }

    /** The message Kafka reads at the beginning of a buffer. */
    Message fromBytes(ByteBufferAccessor bytes, int version) throws ReflectiveOperationException {
        return (Message) messageClass.getConstructor(Readable.class, short.class).newInstance(bytes, (short) version);
    }

    /** The JSON Kafka makes of a message. */
    JsonNode toJson(Message message, int version) throws ReflectiveOperationException {
        return (JsonNode) converterClass.getMethod("write", messageClass, short.class).invoke(null, message, (short) version);
    }
}
