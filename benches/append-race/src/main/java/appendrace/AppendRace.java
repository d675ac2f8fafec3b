package appendrace;

import com.sun.management.OperatingSystemMXBean;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.stream.Stream;

/** How fast Kafka's UnifiedLog takes batches, in one process, one thread, without fsync: the batches of benches/append-race/main.rs. */
public final class AppendRace {
    private static final int RECORDS = 1_000_000;
    private static final int BATCH_BYTES = 16 * 1024;
    private static final int VALUE_BYTES = 100;
    private static final int PRODUCERS = 10;
    private static final long NOW_MS = System.currentTimeMillis();

    private AppendRace() { }

    private static List<byte[]> batches() {
        byte[] value = new byte[VALUE_BYTES];
        for (int i = 0; i < VALUE_BYTES; i++) value[i] = (byte) ('a' + i % 26);
        byte[] key = "key".getBytes(StandardCharsets.UTF_8);
        int[] sequences = new int[PRODUCERS];
        List<byte[]> batches = new ArrayList<>();
        int records = 0;
        for (int turn = 0; records < RECORDS; turn++) {
            int producer = turn % PRODUCERS;
            MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(BATCH_BYTES + 1024), RecordBatch.MAGIC_VALUE_V2,
                Compression.NONE, TimestampType.CREATE_TIME, 0L, RecordBatch.NO_TIMESTAMP, producer, (short) 0, sequences[producer], false,
                RecordBatch.NO_PARTITION_LEADER_EPOCH);
            int size = 0;
            int count = 0;
            while (records < RECORDS && size + VALUE_BYTES + 30 < BATCH_BYTES) {
                builder.append(NOW_MS, key, value);
                // The size of such a record: its length field has two bytes, and so has an offset delta above 63.
                size += 2 + 1 + 1 + (count > 63 ? 2 : 1) + 1 + key.length + 2 + VALUE_BYTES + 1;
                count++;
                records++;
            }
            sequences[producer] += count;
            MemoryRecords built = builder.build();
            byte[] bytes = new byte[built.sizeInBytes()];
            built.buffer().duplicate().get(bytes);
            batches.add(bytes);
        }
        return batches;
    }

    public static void main(String[] args) throws Exception {
        Path root = Path.of(args[0]);
        List<byte[]> batches = batches();
        long bytes = batches.stream().mapToLong(b -> b.length).sum();
        Times least = new Times(Double.MAX_VALUE, Double.MAX_VALUE);
        // The first rounds warm the compiler up.
        for (int round = 0; round < 7; round++) {
            Path dir = root.resolve("kafka-" + round).resolve("race-0");
            Times times = run(dir.toFile(), batches);
            least = new Times(Math.min(least.wall, times.wall), Math.min(least.cpu, times.cpu));
            try (Stream<Path> all = Files.walk(dir.getParent())) {
                for (Path p : all.sorted(Comparator.reverseOrder()).toList()) Files.delete(p);
            }
        }
        System.out.printf("Kafka's UnifiedLog\t%d\t%d\t%d\t%.4f\t%.4f%n", batches.size(), RECORDS, bytes, least.wall, least.cpu);
        System.exit(0);
    }

    /** Seconds. The CPU time is that of the whole process, as kseg counts it. */
    private record Times(double wall, double cpu) { }

    private static Times run(File dir, List<byte[]> batches) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        UnifiedLog log = UnifiedLog.create(dir, new LogConfig(new Properties()), 0L, 0L, scheduler, new BrokerTopicStats(), Time.SYSTEM, 900_000,
            new ProducerStateManagerConfig(86_400_000, true), 600_000, new LogDirFailureChannel(10), true, Optional.of(Uuid.randomUuid()));
        List<ByteBuffer> copies = batches.stream().map(b -> ByteBuffer.wrap(b.clone())).toList();
        RequestLocal local = RequestLocal.withThreadConfinedCaching();
        OperatingSystemMXBean process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpuBefore = process.getProcessCpuTime();
        long start = System.nanoTime();
        for (ByteBuffer batch : copies) {
            log.appendAsLeader(MemoryRecords.readableRecords(batch), 0, AppendOrigin.CLIENT, local, VerificationGuard.SENTINEL,
                TransactionVersion.TV_UNKNOWN);
            log.maybeIncrementHighWatermark(log.logEndOffsetMetadata());
        }
        Times times = new Times((System.nanoTime() - start) / 1e9, (process.getProcessCpuTime() - cpuBefore) / 1e9);
        if (log.logEndOffset() != RECORDS) throw new IllegalStateException("log ends at " + log.logEndOffset());
        log.closeHandlers();
        scheduler.shutdown();
        return times;
    }
}
