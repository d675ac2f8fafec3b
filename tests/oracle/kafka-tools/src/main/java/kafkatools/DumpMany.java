package kafkatools;

import org.apache.kafka.tools.DumpLogSegments;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Runs Kafka's DumpLogSegments over many files in one JVM.
 *
 * <p>Usage: DumpMany ROOT OUT [OPTION...], with paths relative to ROOT on standard input, one a line. What the tool prints
 * for ROOT/a/b.log goes to OUT/a/b.log.txt, with "ROOT/" taken out of it. If the tool throws, the last line of that text is
 * "TOOL EXCEPTION" and the exception. OPTIONs are handed to the tool with each file.
 *
 * <p>The tool changes what it reads: give it a copy.
 */
public final class DumpMany {
    /** A stream whose target can change, since System.out is taken once by whoever prints to it. */
    private static final class Switch extends OutputStream {
        private ByteArrayOutputStream target = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int b) {
            target.write(b);
        }

        @Override
        public synchronized void write(byte[] bytes, int from, int length) {
            target.write(bytes, from, length);
        }

        /** What was written since the last call. */
        synchronized byte[] take() {
            byte[] bytes = target.toByteArray();
            target = new ByteArrayOutputStream();
            return bytes;
        }
    }

    private DumpMany() { }

    public static void main(String[] args) throws IOException {
        if (args.length < 2) {
            System.err.println("usage: DumpMany ROOT OUT [OPTION...]");
            System.exit(64);
        }
        Path root = Path.of(args[0]).toAbsolutePath().normalize();
        Path out = Path.of(args[1]).toAbsolutePath();
        List<String> options = Arrays.asList(args).subList(2, args.length);
        PrintStream console = System.out;
        Switch sink = new Switch();
        PrintStream captured = new PrintStream(sink, true, StandardCharsets.UTF_8);
        System.setOut(captured);
        System.setErr(captured);
        int files = 0;
        int exceptions = 0;
        BufferedReader list = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String name = list.readLine(); name != null; name = list.readLine()) {
            if (!dump(root.resolve(name), options, captured)) exceptions++;
            captured.flush();
            String text = new String(sink.take(), StandardCharsets.UTF_8).replace(root + "/", "");
            Path to = out.resolve(name + ".txt");
            Files.createDirectories(to.getParent());
            Files.writeString(to, text);
            files++;
        }
        console.println(files + " files dumped, the tool threw on " + exceptions);
        console.flush();
        // Index files leave a thread behind.
        System.exit(0);
    }

    private static boolean dump(Path file, List<String> options, PrintStream captured) {
        List<String> job = new ArrayList<>(List.of("--files", file.toString()));
        job.addAll(options);
        try {
            DumpLogSegments.main(job.toArray(new String[0]));
            return true;
        } catch (Exception | LinkageError | StackOverflowError | OutOfMemoryError e) {
            captured.println("TOOL EXCEPTION " + e);
            return false;
        }
    }
}
