package brokercheck;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * Runs kseg's reading commands on the log directory of a broker at work: idempotent and transactional producers, offsets in
 * transactions, retention, deleted records, compaction, topics that come and go.
 *
 * A sound directory is read, so nothing may be found: the status is 0, or 2 with nothing but "changed while reading".
 */
public final class Live {
    private static final byte[][] VALUES = new byte[16][];
    private static final List<String> TOPICS = List.of("retained", "trimmed", "compacted", "transactions");

    private final String kseg;
    private final Path work;
    private final Broker broker;
    private final long seed;
    private final List<Thread> load = new ArrayList<>();
    private final Map<String, Integer> endings = new TreeMap<>();
    private volatile boolean stop;
    private volatile Exception loadFailure;

    private Live(String kseg, Path work, long seed) throws IOException {
        this.kseg = kseg;
        this.work = work;
        this.seed = seed;
        this.broker = new Broker(work, List.of(
            "log.retention.check.interval.ms=500",
            "log.segment.delete.delay.ms=300",
            "log.cleaner.backoff.ms=200",
            "log.cleaner.dedupe.buffer.size=2097152",
            "log.flush.offset.checkpoint.interval.ms=500",
            "log.flush.start.offset.checkpoint.interval.ms=500",
            "replica.high.watermark.checkpoint.interval.ms=300",
            "offsets.topic.segment.bytes=1048576",
            "group.initial.rebalance.delay.ms=0"));
    }

    /** Arguments: kseg, a folder, the list of commands, seconds, a seed. */
    public static void main(String[] args) throws Exception {
        Random random = new Random(Long.parseLong(args[4]));
        for (int i = 0; i < VALUES.length; i++) {
            VALUES[i] = new byte[random.nextInt(900)];
            random.nextBytes(VALUES[i]);
        }
        Live live = new Live(args[0], Path.of(args[1]).toAbsolutePath(), random.nextLong());
        List<String> failures;
        try {
            failures = live.run(commands(Path.of(args[2])), Long.parseLong(args[3]) * 1000);
        } finally {
            live.stop = true;
            for (Thread thread : live.load) thread.join();
            live.broker.close();
        }
        failures.forEach(System.out::println);
        System.out.println(live.endings + ", " + failures.size() + " wrong");
        System.exit(failures.isEmpty() ? 0 : 1);
    }

    private static List<String> commands(Path list) throws IOException {
        return Files.readAllLines(list).stream().filter(line -> !line.startsWith("#") && !line.isBlank()).toList();
    }

    private List<String> run(List<String> commands, long millis) throws Exception {
        broker.format();
        broker.start();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.bootstrap()))) {
            createTopics(admin);
            startLoad(admin);
            // Segments roll by time: the first ones have to be there.
            Thread.sleep(5000);
            List<String> failures = new ArrayList<>();
            long until = System.currentTimeMillis() + millis;
            for (int turn = 0; failures.size() < 5 && System.currentTimeMillis() < until; turn++) {
                String command = commands.get(turn % commands.size());
                boolean isForPartition = command.startsWith("partition ");
                for (Path path : isForPartition ? partitions() : List.of(broker.data, work.resolve("metadata"))) {
                    run(command.replaceFirst("^partition ", ""), path, failures);
                }
                if (loadFailure != null) throw loadFailure;
            }
            return failures;
        }
    }

    // ---- the broker's work ----

    private void createTopics(Admin admin) throws Exception {
        Map<String, String> small = Map.of("internal.segment.bytes", "60000", "segment.index.bytes", "4096",
            "index.interval.bytes", "1000", "file.delete.delay.ms", "300");
        List<NewTopic> topics = new ArrayList<>();
        for (String name : TOPICS) {
            Map<String, String> config = new TreeMap<>(small);
            switch (name) {
                case "retained" -> config.put("retention.bytes", "300000");
                case "trimmed" -> config.put("retention.ms", "-1");
                case "compacted" -> config.putAll(Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01",
                    "delete.retention.ms", "1000", "max.compaction.lag.ms", "1000"));
                default -> config.put("retention.ms", "8000");
            }
            topics.add(new NewTopic(name, 2, (short) 1).configs(config));
        }
        admin.createTopics(topics).all().get();
    }

    private interface Work {
        void once(Random random, int turn) throws Exception;
    }

    private void startLoad(Admin admin) {
        KafkaProducer<byte[], byte[]> plain = producer(null);
        start(1, (random, turn) -> {
            for (String topic : List.of("retained", "trimmed", "compacted")) send(plain, topic, random);
            Thread.sleep(1);
        });
        for (int id = 0; id < 3; id++) {
            KafkaProducer<byte[], byte[]> producer = producer("writer-" + id);
            producer.initTransactions();
            start(10 + id, (random, turn) -> transaction(producer, random));
        }
        start(20, (random, turn) -> {
            Thread.sleep(700);
            TopicPartition partition = new TopicPartition("trimmed", random.nextInt(2));
            long end = admin.listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition).get().offset();
            long before = Math.max(0, end - 200 - random.nextInt(500));
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(before))).all().get();
        });
        start(30, (random, turn) -> {
            String name = "passing-" + turn;
            admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
            Thread.sleep(300);
            admin.deleteTopics(List.of(name)).all().get();
            Thread.sleep(1500);
        });
    }

    private void start(int number, Work work) {
        Random random = new Random(seed + number);
        Thread thread = new Thread(() -> {
            try {
                for (int turn = 0; !stop; turn++) work.once(random, turn);
            } catch (Exception e) {
                if (!stop) loadFailure = e;
            }
        });
        load.add(thread);
        thread.start();
    }

    private KafkaProducer<byte[], byte[]> producer(String transactionalId) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", broker.bootstrap());
        properties.put("linger.ms", "5");
        properties.put("batch.size", "4000");
        properties.put("enable.idempotence", "true");
        if (transactionalId != null) properties.put("transactional.id", transactionalId);
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, Random random) {
        byte[] key = ("key-" + random.nextInt(50)).getBytes(StandardCharsets.UTF_8);
        byte[] value = random.nextInt(20) == 0 ? null : VALUES[random.nextInt(VALUES.length)];
        producer.send(new ProducerRecord<>(topic, random.nextInt(2), key, value));
    }

    private static void transaction(KafkaProducer<byte[], byte[]> producer, Random random) throws InterruptedException {
        producer.beginTransaction();
        for (int count = random.nextInt(20); count >= 0; count--) {
            send(producer, random.nextInt(3) == 0 ? "compacted" : "transactions", random);
        }
        if (random.nextInt(4) == 0) {
            producer.sendOffsetsToTransaction(Map.of(new TopicPartition("retained", 0), new OffsetAndMetadata(random.nextInt(1000))),
                new ConsumerGroupMetadata("group-" + random.nextInt(5)));
        }
        producer.flush();
        Thread.sleep(random.nextInt(30));
        if (random.nextInt(3) == 0) producer.abortTransaction();
        else producer.commitTransaction();
    }

    // ---- kseg ----

    private List<Path> partitions() throws IOException {
        try (Stream<Path> paths = Files.list(broker.data)) {
            return paths.filter(path -> TOPICS.stream().anyMatch(topic -> path.endsWith(topic + "-0"))).sorted().toList();
        }
    }

    private void run(String command, Path path, List<String> failures) throws Exception {
        Path out = work.resolve("out");
        remove(out);
        List<String> arguments = new ArrayList<>(List.of(kseg));
        for (String argument : command.split(" +")) {
            arguments.add(argument.equals("PATH") ? path.toString() : argument.equals("OUT") ? out.toString() : argument);
        }
        Path stdout = work.resolve("stdout");
        Path stderr = work.resolve("stderr");
        Process process = new ProcessBuilder(arguments).redirectOutput(stdout.toFile()).redirectError(stderr.toFile()).start();
        if (!process.waitFor(120, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            failures.add(String.join(" ", arguments) + ": has not ended");
            return;
        }
        String said = Files.readString(stderr, StandardCharsets.ISO_8859_1);
        int status = process.exitValue();
        // What no scenario can say, such as a batch that was compacted, is named: `docs/write.md`.
        boolean cannotSay = command.contains("--from") && said.contains(": batch at offset ");
        boolean hasChanged = said.contains("changed while reading");
        // The two sides of a comparison are of two moments.
        boolean mayDiffer = status == 1 && command.startsWith("diff ");
        boolean isRight = status == 0 || mayDiffer || status == 2 && (hasChanged || cannotSay);
        isRight &= said.lines().allMatch(line -> cannotSay || line.contains(" while reading") || line.startsWith("hint: ")
            || line.startsWith("note: ") || line.startsWith("rebuilt ") || line.contains("-delete: not in use")
            // What a clean start would do without a clean stop.
            || command.startsWith("recover ") && line.contains(", clean start: "));
        endings.merge(status == 0 ? "status 0" : hasChanged ? "changed while reading" : "status " + status, 1, Integer::sum);
        if (!isRight) {
            Path kept = work.resolve("failure-" + failures.size());
            Files.copy(stdout, kept);
            failures.add(String.join(" ", arguments) + ": status " + status + ", output in " + kept + "\n" + said);
        }
    }

    private static void remove(Path path) throws IOException {
        if (!Files.exists(path)) return;
        try (Stream<Path> paths = Files.walk(path)) {
            for (Path each : paths.sorted(Comparator.reverseOrder()).toList()) Files.delete(each);
        }
    }
}
