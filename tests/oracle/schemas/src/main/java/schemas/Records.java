package schemas;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.serialization.AbstractApiMessageSerde;
import org.apache.kafka.server.log.remote.metadata.storage.generated.MetadataRecordType;

/** What Kafka's dump tool prints of the records of one internal topic. */
final class Records {
    private Records() {
    }

    /** Key and value as JSON; empty where there is none. */
    record Shown(Optional<String> key, Optional<String> value) {
    }

    /** Decodes one record, or says that it cannot. */
    interface Decoder {
        Optional<Shown> decode(byte[] key, byte[] value) throws Exception;
    }

    static Map<String, Decoder> all(Map<String, Definition> definitions) throws Exception {
        return Map.of(
            "__consumer_offsets", dumpTool("OffsetsMessageParser"),
            "__transaction_state", dumpTool("TransactionLogMessageParser"),
            "__share_group_state", dumpTool("ShareGroupStateMessageParser"),
            "__cluster_metadata", dumpTool("ClusterMetadataLogMessageParser"),
            "__remote_log_metadata", (key, value) -> remoteLogMetadata(definitions, value));
    }

    /** Of these the tool prints the Java object, so the JSON is made here, in the form of cluster metadata. */
    private static Optional<Shown> remoteLogMetadata(Map<String, Definition> definitions, byte[] value) throws Exception {
        if (value == null) {
            return Optional.of(new Shown(Optional.empty(), Optional.empty()));
        }
        ApiMessageAndVersion read;
        try {
            read = REMOTE_LOG_SERDE.read(new ByteBufferAccessor(java.nio.ByteBuffer.wrap(value)), value.length);
        } catch (RuntimeException e) {
            return Optional.empty();
        }
        ObjectNode json = new ObjectNode(JsonNodeFactory.instance);
        json.put("type", MetadataRecordType.fromId(read.message().apiKey()).toString());
        json.put("version", (int) read.version());
        json.set("data", definitions.get(read.message().getClass().getSimpleName()).toJson(read.message(), read.version()));
        return Optional.of(new Shown(Optional.empty(), Optional.of(json.toString())));
    }

    private static final AbstractApiMessageSerde REMOTE_LOG_SERDE = new AbstractApiMessageSerde() {
        @Override
        public ApiMessage apiMessageFor(short apiKey) {
            return MetadataRecordType.fromId(apiKey).newMetadataRecord();
        }
    };

    /** The value of a record that names its type. */
    static byte[] framed(ApiMessage message, int version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ApiMessageAndVersion data = new ApiMessageAndVersion(message, (short) version);
        ByteBufferAccessor out = new ByteBufferAccessor(java.nio.ByteBuffer.allocate(REMOTE_LOG_SERDE.recordSize(data, cache)));
        REMOTE_LOG_SERDE.write(data, cache, out);
        return out.buffer().array();
    }

    private static Decoder dumpTool(String parserName) throws Exception {
        Class<?> parserClass = Class.forName("org.apache.kafka.tools.DumpLogSegments$" + parserName);
        Constructor<?> constructor = parserClass.getDeclaredConstructor();
        constructor.setAccessible(true);
        Object parser = constructor.newInstance();
        Method parse = parserClass.getMethod("parse", Record.class);
        parse.setAccessible(true);
        boolean hasKeys = !parserName.startsWith("ClusterMetadata");
        return (key, value) -> {
            if (value == null && !hasKeys) {
                // The tool fails on these.
                return Optional.of(new Shown(Optional.empty(), Optional.empty()));
            }
            Record record = MemoryRecords.withRecords(Compression.NONE, new SimpleRecord(0, key, value)).records().iterator().next();
            Object result = parse.invoke(parser, record);
            Shown shown = new Shown(part(result, "key"), part(result, "value").filter(text -> !text.equals("<DELETE>")));
            boolean failed = shown.key().or(shown::value).orElse("").matches("(?s)(Unknown record type|Error at).*");
            return failed ? Optional.empty() : Optional.of(shown);
        };
    }

    @SuppressWarnings("unchecked")
    private static Optional<String> part(Object result, String name) throws Exception {
        Method accessor = result.getClass().getDeclaredMethod(name);
        accessor.setAccessible(true);
        return (Optional<String>) accessor.invoke(result);
    }
}
