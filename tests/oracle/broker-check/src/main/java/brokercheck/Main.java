package brokercheck;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeProducersResult;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * Lets kseg write a log directory, starts a broker on it, and asks both the same questions.
 *
 * The broker makes the topics first, so that the directory can be given the ids it expects.
 */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String REDACTED = "-";

    private final String kseg;
    private final Path work;
    private final Broker broker;
    private final Path data;
    private final List<ObjectNode> scenarios = new ArrayList<>();
    private int compared;
    private int differences;

    private Main(String kseg, Path work, Path scenarioDir) throws Exception {
        this.kseg = kseg;
        this.work = work;
        this.broker = new Broker(work);
        this.data = broker.data;
        long startMs = System.currentTimeMillis() - 3_600_000;
        try (Stream<Path> files = Files.list(scenarioDir)) {
            for (Path file : files.sorted().toList()) {
                ObjectNode scenario = (ObjectNode) JSON.readTree(file.toFile());
                // Recent times, or the broker forgets the producers when it loads them.
                scenario.put("startTimeMs", startMs);
                scenarios.add(scenario);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        Main main = new Main(args[0], Path.of(args[1]).toAbsolutePath(), Path.of(args[2]));
        try {
            main.run();
        } finally {
            main.broker.close();
        }
        System.out.println(main.compared + " answers compared, " + main.differences + " differ");
        System.exit(main.differences == 0 ? 0 : 1);
    }

    private void run() throws Exception {
        broker.format();
        broker.start();
        try (Admin admin = admin()) {
            createTopics(admin);
        }
        broker.stop();
        Map<String, JsonNode> last = write();
        Map<String, List<JsonNode>> producers = producers();
        broker.start();
        try (Admin admin = admin()) {
            for (ObjectNode scenario : scenarios) {
                String topic = scenario.get("topic").textValue();
                compareTopic(admin, scenario, last.get(topic), producers.get(topic));
            }
            endHangingTransaction(admin);
            writeOn(admin);
        }
        broker.stop();
        same("errors in the broker's log", List.of(), broker.complaints());
        compareStopped();
    }

    private Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", broker.bootstrap()));
    }

    private void createTopics(Admin admin) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (ObjectNode scenario : scenarios) {
            Map<String, String> config = new LinkedHashMap<>();
            config.put("retention.ms", "-1");
            JsonNode policy = scenario.path("config").get("cleanup.policy");
            if (policy != null) config.put("cleanup.policy", policy.textValue());
            topics.add(new NewTopic(scenario.get("topic").textValue(), 1, (short) 1).configs(config));
        }
        admin.createTopics(topics).all().get();
        List<String> names = topics.stream().map(NewTopic::name).toList();
        var described = admin.describeTopics(names).allTopicNames().get();
        for (ObjectNode scenario : scenarios)
            scenario.put("topicId", described.get(scenario.get("topic").textValue()).topicId().toString());
    }

    /** Puts kseg's directory in place of the broker's; the last row of each topic. */
    private Map<String, JsonNode> write() throws Exception {
        Properties identity = new Properties();
        try (var in = Files.newInputStream(data.resolve("meta.properties"))) {
            identity.load(in);
        }
        deleteTree(data);
        List<String> command = new ArrayList<>(List.of(kseg, "write", "--root", "-o", "ndjson", "--out", data.toString(),
            "--cluster-id=" + identity.getProperty("cluster.id"), "--node-id", identity.getProperty("node.id"),
            "--directory-id=" + identity.getProperty("directory.id")));
        for (ObjectNode scenario : scenarios) {
            Path file = work.resolve(scenario.get("topic").textValue() + ".json");
            JSON.writeValue(file.toFile(), scenario);
            command.add(file.toString());
        }
        Map<String, JsonNode> last = new TreeMap<>();
        for (JsonNode row : rows(command)) last.put(row.get("topic").textValue(), row);
        return last;
    }

    private Map<String, List<JsonNode>> producers() throws Exception {
        Map<String, List<JsonNode>> byTopic = new TreeMap<>();
        for (JsonNode row : rows(List.of(kseg, "producers", "-o", "ndjson", data.toString())))
            byTopic.computeIfAbsent(row.get("topic").textValue(), t -> new ArrayList<>()).add(row);
        return byTopic;
    }

    private List<JsonNode> rows(List<String> command) throws Exception {
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        List<JsonNode> rows = new ArrayList<>();
        for (String line : new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).split("\n"))
            if (!line.isEmpty()) rows.add(JSON.readTree(line));
        // 1 says that a step was refused, or that something was found.
        if (process.waitFor() > 1) throw new IllegalStateException("failed: " + command);
        return rows;
    }

    private void compareTopic(Admin admin, ObjectNode scenario, JsonNode last, List<JsonNode> producers) throws Exception {
        String topic = scenario.get("topic").textValue();
        TopicPartition partition = new TopicPartition(topic, 0);
        JsonNode state = last.get("state");
        same(topic + " earliest", state.get("logStartOffset").longValue(), offset(admin, partition, OffsetSpec.earliest(), false));
        same(topic + " latest", state.get("logEndOffset").longValue(), offset(admin, partition, OffsetSpec.latest(), false));
        same(topic + " latest, read_committed", state.get("lastStableOffset").longValue(),
            offset(admin, partition, OffsetSpec.latest(), true));
        same(topic + " producers", described(producers), described(admin, partition));
        same(topic + " read_uncommitted", dumped(topic, Long.MAX_VALUE, false), consumed(partition, false));
        same(topic + " read_committed", dumped(topic, state.get("lastStableOffset").longValue(), true), consumed(partition, true));
    }

    private static long offset(Admin admin, TopicPartition partition, OffsetSpec spec, boolean committed) throws Exception {
        IsolationLevel level = committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
        return admin.listOffsets(Map.of(partition, spec), new ListOffsetsOptions(level)).partitionResult(partition).get().offset();
    }

    private static List<String> described(Admin admin, TopicPartition partition) throws Exception {
        DescribeProducersResult result = admin.describeProducers(List.of(partition));
        List<ProducerState> states = new ArrayList<>(result.partitionResult(partition).get().activeProducers());
        states.sort(Comparator.comparingLong(ProducerState::producerId));
        List<String> out = new ArrayList<>();
        for (ProducerState s : states)
            out.add(s.producerId() + " epoch " + s.producerEpoch() + " sequence " + s.lastSequence() + " at " + s.lastTimestamp()
                + " coordinator " + s.coordinatorEpoch().orElse(-1) + " since " + s.currentTransactionStartOffset().orElse(-1));
        return out;
    }

    private static List<String> described(List<JsonNode> producers) {
        List<JsonNode> sorted = new ArrayList<>(producers == null ? List.of() : producers);
        sorted.sort(Comparator.comparingLong(p -> p.get("producerId").longValue()));
        List<String> out = new ArrayList<>();
        for (JsonNode p : sorted)
            out.add(p.get("producerId").asText() + " epoch " + orMinusOne(p, "producerEpoch") + " sequence "
                + orMinusOne(p, "lastSequence") + " at " + orMinusOne(p, "lastTimestamp") + " coordinator "
                + orMinusOne(p, "coordinatorEpoch") + " since " + orMinusOne(p, "currentTxnFirstOffset"));
        return out;
    }

    private static long orMinusOne(JsonNode node, String field) {
        JsonNode value = node.get(field);
        return value == null || value.isNull() ? -1 : value.longValue();
    }

    /** Offsets of the data records as kseg reads them; aborted ones and open ones left out if asked to. */
    private List<Long> dumped(String topic, long end, boolean committed) throws Exception {
        List<JsonNode> rows = rows(List.of(kseg, "dump", "-o", "ndjson", "--topic", topic, data.toString()));
        List<JsonNode> aborted = rows.stream().filter(r -> r.path("file").asText().endsWith(".txnindex")).toList();
        long start = offsetOf(topic);
        List<Long> offsets = new ArrayList<>();
        for (JsonNode batch : rows) {
            if (!batch.path("file").asText().endsWith(".log") || batch.get("isControl").booleanValue()) continue;
            long first = batch.get("baseOffset").longValue();
            boolean skip = committed && batch.get("isTransactional").booleanValue() && aborted.stream().anyMatch(a ->
                a.get("producerId").longValue() == batch.get("producerId").longValue()
                    && a.get("firstOffset").longValue() <= first && first < a.get("lastOffset").longValue());
            if (skip || first >= end || batch.get("count").intValue() == 0) continue;
            // A compacted batch has fewer records than offsets; which ones, its ends tell here.
            long last = batch.get("lastOffset").longValue();
            boolean dense = batch.get("count").longValue() == last - first + 1;
            for (long o = first; o <= last; o += dense ? 1 : Math.max(1, last - first)) if (o >= start) offsets.add(o);
        }
        return offsets;
    }

    private long offsetOf(String topic) throws IOException {
        for (String line : Files.readAllLines(data.resolve("log-start-offset-checkpoint")))
            if (line.startsWith(topic + " 0 ")) return Long.parseLong(line.substring(topic.length() + 3));
        return 0;
    }

    private List<Long> consumed(TopicPartition partition, boolean committed) {
        Map<String, Object> config = new LinkedHashMap<>();
        config.put("bootstrap.servers", broker.bootstrap());
        config.put("isolation.level", committed ? "read_committed" : "read_uncommitted");
        config.put("enable.auto.commit", false);
        List<Long> offsets = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            long deadline = System.currentTimeMillis() + 20_000;
            while (consumer.position(partition) < end && System.currentTimeMillis() < deadline)
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200))) offsets.add(r.offset());
        }
        return offsets;
    }

    /** The broker ends the transaction that kseg left open; kseg says what comes of it. */
    private void endHangingTransaction(Admin admin) throws Exception {
        TopicPartition partition = new TopicPartition("hanging", 0);
        ObjectNode scenario = scenarios.stream().filter(s -> s.get("topic").textValue().equals("hanging")).findFirst().orElseThrow();
        ObjectNode longer = scenario.deepCopy();
        ObjectNode marker = JSON.createObjectNode().put("producerId", 900012).put("producerEpoch", 5).put("controlType", "ABORT")
            .put("transactionVersion", 0);
        longer.withArray("steps").addObject().set("endTxnMarker", marker);
        Path file = work.resolve("ended.json");
        JSON.writeValue(file.toFile(), longer);
        List<JsonNode> rows = rows(List.of(kseg, "write", "-o", "ndjson", "--out", work.resolve("ended").toString(), file.toString()));
        JsonNode state = rows.get(rows.size() - 1).get("state");
        admin.abortTransaction(new AbortTransactionSpec(partition, 900012L, (short) 5, 0)).all().get();
        same("hanging latest after the abort", state.get("logEndOffset").longValue(), offset(admin, partition, OffsetSpec.latest(), false));
        same("hanging latest, read_committed, after the abort", state.get("lastStableOffset").longValue(),
            offset(admin, partition, OffsetSpec.latest(), true));
    }

    /** Ordinary clients go on where kseg stopped. */
    private void writeOn(Admin admin) throws Exception {
        for (ObjectNode scenario : scenarios) {
            TopicPartition partition = new TopicPartition(scenario.get("topic").textValue(), 0);
            long end = offset(admin, partition, OffsetSpec.latest(), false);
            Map<String, Object> config = Map.of("bootstrap.servers", broker.bootstrap(), "transactional.id", "check-" + partition);
            try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(partition.topic(), 0, REDACTED.getBytes(StandardCharsets.UTF_8), new byte[10]));
                producer.commitTransaction();
            }
            // The commit is answered before its marker is written.
            long deadline = System.currentTimeMillis() + 20_000;
            while (offset(admin, partition, OffsetSpec.latest(), true) < end + 2 && System.currentTimeMillis() < deadline)
                Thread.sleep(50);
            same(partition + " latest after a transaction", end + 2, offset(admin, partition, OffsetSpec.latest(), true));
        }
    }

    /** What kseg says of the directory that the broker has left. */
    private void compareStopped() throws Exception {
        for (JsonNode row : rows(List.of(kseg, "lso", "-o", "ndjson", data.toString()))) {
            String topic = row.path("topic").asText();
            if (topic.startsWith("__")) continue;
            same(topic + " is stable after the stop", row.get("logEndOffset").longValue(), row.get("lastStableOffset").longValue());
        }
    }

    private void same(String what, Object kseg, Object kafka) {
        compared++;
        if (!Objects.equals(kseg, kafka)) {
            differences++;
            System.out.println("DIFFERENT: " + what + "\n  kseg   " + kseg + "\n  broker " + kafka);
        }
    }

    static void deleteTree(Path dir) throws IOException {
        if (!Files.exists(dir)) return;
        try (Stream<Path> all = Files.walk(dir)) {
            for (Path p : all.sorted(Comparator.reverseOrder()).toList()) Files.delete(p);
        }
    }
}
