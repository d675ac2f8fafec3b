package logoracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Opens partition directories as a broker does at its start, clean or not, says what came of it, and closes them again.
 * The directories are changed as Kafka changes them.
 */
final class Loader {
    /** Long enough for everything that is deleted later. */
    private static final long DELETE_DELAY_MS = 60_000;

    private Loader() { }

    /** One request a line, one answer a line, in the same order. */
    static void load(Path requests, Path answers) throws Exception {
        List<String> lines = new ArrayList<>();
        for (String line : Files.readAllLines(requests)) {
            ObjectNode answer = load(Json.MAPPER.readTree(line));
            lines.add(Json.MAPPER.writeValueAsString(answer));
        }
        Files.write(answers, lines);
    }

    private static ObjectNode load(JsonNode request) {
        ObjectNode answer = Json.object();
        File dir = new File(request.get("dir").asText());
        MockClock clock = new MockClock(request.get("nowMs").asLong());
        ManualScheduler scheduler = new ManualScheduler(clock);
        Map<String, Object> config = new HashMap<>();
        config.put("index.interval.bytes", request.get("indexIntervalBytes").asInt());
        config.put("segment.index.bytes", request.get("segmentIndexBytes").asInt());
        UnifiedLog log;
        try {
            log = UnifiedLog.create(dir, new LogConfig(config), request.get("logStartOffset").asLong(),
                request.get("recoveryPoint").asLong(), scheduler, new BrokerTopicStats(), clock, 900_000,
                new ProducerStateManagerConfig(request.get("producerIdExpirationMs").asInt(), true), Integer.MAX_VALUE,
                new LogDirFailureChannel(10), request.get("clean").asBoolean(), Optional.empty());
        } catch (Throwable e) {
            answer.put("loads", false);
            answer.put("error", e.getClass().getSimpleName());
            answer.put("message", String.valueOf(e.getMessage()));
            answer.set("filesAfterStart", files(dir));
            return answer;
        }
        try {
            answer.put("loads", true);
            scheduler.runDue();
            answer.set("filesAfterStart", files(dir));
            scheduler.advanceTo(clock.milliseconds() + DELETE_DELAY_MS);
            log.updateHighWatermark(Math.max(0, log.logEndOffset()));
            answer.put("logStartOffset", log.logStartOffset());
            answer.put("logEndOffset", log.logEndOffset());
            answer.put("highWatermark", log.highWatermark());
            answer.put("lastStableOffset", log.lastStableOffset());
            answer.put("recoveryPoint", log.recoveryPoint());
            ArrayNode segments = answer.putArray("segments");
            for (LogSegment segment : log.logSegments())
                segments.addObject().put("baseOffset", segment.baseOffset()).put("size", segment.size());
            answer.set("producers", producers(log));
            ArrayNode aborted = answer.putArray("abortedTransactions");
            for (AbortedTxn t : log.collectAbortedTransactions(log.logStartOffset(), Long.MAX_VALUE))
                aborted.addObject().put("producerId", t.producerId()).put("firstOffset", t.firstOffset())
                    .put("lastOffset", t.lastOffset()).put("lastStableOffset", t.lastStableOffset());
            ArrayNode epochs = answer.putArray("leaderEpochs");
            log.leaderEpochCache().epochEntries().forEach(e -> epochs.addArray().add(e.epoch()).add(e.startOffset()));
        } catch (Throwable e) {
            answer.put("after", e.getClass().getSimpleName() + ": " + e.getMessage());
        } finally {
            try {
                // As LogManager does when the broker is shut down, with logs that are not to be deleted.
                if (!dir.getName().endsWith("-delete")) log.flush(true);
                log.takeProducerSnapshot();
                log.close();
            } catch (Throwable e) {
                answer.put("close", e.getClass().getSimpleName() + ": " + e.getMessage());
            }
        }
        return answer;
    }

    private static ArrayNode producers(UnifiedLog log) {
        ArrayNode out = Json.array();
        new TreeMap<>(log.producerStateManager().activeProducers()).forEach((id, e) -> {
            ObjectNode producer = out.addObject().put("producerId", id).put("producerEpoch", e.producerEpoch())
                .put("coordinatorEpoch", e.coordinatorEpoch());
            int last = -1;
            for (BatchMetadata b : e.batchMetadata()) last = b.lastSeq();
            producer.put("lastSequence", last).put("lastDataOffset", e.lastDataOffset()).put("lastTimestamp", e.lastTimestamp());
            if (e.currentTxnFirstOffset().isPresent())
                producer.put("currentTxnFirstOffset", e.currentTxnFirstOffset().getAsLong());
            else
                producer.putNull("currentTxnFirstOffset");
            ArrayNode batches = producer.putArray("batches");
            for (BatchMetadata b : e.batchMetadata())
                batches.addObject().put("firstSequence", b.firstSeq()).put("lastSequence", b.lastSeq())
                    .put("firstOffset", b.firstOffset()).put("lastOffset", b.lastOffset()).put("timestamp", b.timestamp());
        });
        return out;
    }

    private static ObjectNode files(File dir) {
        Map<String, Long> sizes = new TreeMap<>();
        File[] files = dir.listFiles(File::isFile);
        if (files != null)
            for (File file : files) sizes.put(file.getName(), file.length());
        ObjectNode out = Json.object();
        sizes.forEach(out::put);
        return out;
    }
}
