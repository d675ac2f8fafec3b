package brokercheck;

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** One Kafka node, broker and controller, in a JVM of its own with this program's class path. */
final class Broker implements AutoCloseable {
    final Path data;
    private final Path work;
    private final int port;
    private final List<Path> logs = new ArrayList<>();
    private Process process;

    Broker(Path work) throws IOException {
        this(work, List.of("log.cleaner.enable=false"));
    }

    /** With more lines for its configuration. */
    Broker(Path work, List<String> properties) throws IOException {
        this.work = work;
        this.data = work.resolve("data");
        this.port = freePort();
        int controller = freePort();
        Files.createDirectories(work);
        List<String> lines = new ArrayList<>(List.of(
            "process.roles=broker,controller",
            "node.id=1",
            "controller.quorum.voters=1@127.0.0.1:" + controller,
            "listeners=PLAINTEXT://127.0.0.1:" + port + ",CONTROLLER://127.0.0.1:" + controller,
            "advertised.listeners=PLAINTEXT://127.0.0.1:" + port,
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs=" + data,
            "metadata.log.dir=" + work.resolve("metadata"),
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "transaction.state.log.num.partitions=1",
            "auto.create.topics.enable=false"));
        lines.addAll(properties);
        Files.write(work.resolve("server.properties"), lines);
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    String bootstrap() { return "127.0.0.1:" + port; }

    void format() throws Exception {
        Process format = jvm(work.resolve("format.log"), "kafka.tools.StorageTool", "format", "-t",
            org.apache.kafka.common.Uuid.randomUuid().toString(), "-c", config());
        if (format.waitFor() != 0) throw new IllegalStateException("cannot format, see " + work.resolve("format.log"));
    }

    void start() throws Exception {
        Path log = work.resolve("broker-" + logs.size() + ".log");
        logs.add(log);
        process = jvm(log, "kafka.Kafka", config());
        long deadline = System.currentTimeMillis() + 120_000;
        while (!Files.readString(log, StandardCharsets.ISO_8859_1).contains("Kafka Server started")) {
            if (!process.isAlive()) throw new IllegalStateException("the broker died, see " + log);
            if (System.currentTimeMillis() > deadline) throw new IllegalStateException("the broker is slow, see " + log);
            Thread.sleep(200);
        }
    }

    void stop() throws Exception {
        process.destroy();
        if (!process.waitFor(90, TimeUnit.SECONDS)) throw new IllegalStateException("the broker does not stop");
        process = null;
    }

    /** Errors, and warnings about corrupt, missing or stray files, since kseg's directory was put in place. */
    List<String> complaints() throws IOException {
        List<String> found = new ArrayList<>();
        for (String line : Files.readAllLines(logs.get(logs.size() - 1), StandardCharsets.ISO_8859_1)) {
            boolean isError = line.contains(" ERROR ") || line.startsWith("ERROR") || line.contains("[ERROR]");
            boolean isAboutFiles = line.matches(".*(?i)(corrupt|stray|could not find offset index|inconsistent).*");
            if (isError || (isAboutFiles && line.contains("WARN"))) found.add(line);
        }
        return found;
    }

    private String config() { return work.resolve("server.properties").toString(); }

    private Process jvm(Path log, String... tail) throws IOException {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.logFile=System.out",
            "-Dkafka.logs.dir=" + work, "-cp", System.getProperty("java.class.path").replace(":", File.pathSeparator)));
        command.addAll(List.of(tail));
        return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).start();
    }

    @Override public void close() {
        if (process != null) process.destroyForcibly();
    }
}
