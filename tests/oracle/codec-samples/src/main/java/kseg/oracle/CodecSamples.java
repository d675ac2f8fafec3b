package kseg.oracle;

import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Random;
import java.util.zip.CRC32C;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * What Kafka's codecs make of known payloads, and of damaged streams.
 *
 * <pre>
 * CodecSamples golden DIRECTORY           the files under tests/data/compression
 * CodecSamples random COUNT SEED FILE     digests of random payloads at all levels
 * CodecSamples decode COUNT SEED FILE     damaged streams and Kafka's answers
 * </pre>
 *
 * A digest line is: kind seed size codec level magic size-of-output crc32c-of-output. A decode line is: codec magic hex,
 * then "ok" with size and crc32c of the plain bytes, or "error".
 */
public final class CodecSamples {
    private static final int[] GZIP_LEVELS = {-1, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    private static final int[] LZ4_LEVELS = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
    private static final int[] ZSTD_LEVELS = {
        -131072, -100, -7, -5, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22
    };
    private static final int[] NO_LEVELS = {0};

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "golden" -> golden(Path.of(args[1]));
            case "random" -> random(Integer.parseInt(args[1]), Long.parseLong(args[2]), Path.of(args[3]));
            case "decode" -> decode(Integer.parseInt(args[1]), Long.parseLong(args[2]), Path.of(args[3]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void golden(Path directory) throws Exception {
        Files.createDirectories(directory);
        try (PrintStream digests = new PrintStream(Files.newOutputStream(directory.resolve("digests.txt")))) {
            int[] sizes = {
                0, 1, 3, 4, 14, 15, 16, 17, 59, 60, 61, 62, 100, 255, 256, 257, 1000, 4096, 8191, 8192, 8193, 16384, 16385,
                32767, 32768, 32769, 65535, 65536, 65537, 98304, 131071, 131072, 131073, 200000
            };
            for (String kind : new String[] {"random", "words", "rows", "mixed"})
                for (int size : sizes)
                    digests(kind, size, size, digests, false);
            for (String kind : new String[] {"rows", "mixed"})
                for (int size : new int[] {1000, 40000})
                    digests(kind, 2, size, digests, true);
        }
        for (String kind : new String[] {"random", "words", "rows", "runs"}) {
            byte[] payload = Payloads.make(kind, 7, 1500);
            for (CompressionType type : CompressionType.values()) {
                if (type == CompressionType.NONE)
                    continue;
                for (int level : someLevels(type))
                    for (byte magic : type == CompressionType.LZ4 ? new byte[] {0, 2} : new byte[] {2})
                        Files.write(directory.resolve(kind + "-7-1500." + type.name + "." + level + "." + magic),
                            compress(type, level, magic, payload, 1));
            }
        }
    }

    private static int[] someLevels(CompressionType type) {
        return switch (type) {
            case GZIP -> new int[] {-1, 1, 9};
            case LZ4 -> new int[] {9, 12};
            case ZSTD -> new int[] {-5, 3, 12};
            default -> NO_LEVELS;
        };
    }

    private static void random(int count, long seed, Path file) throws Exception {
        Random random = new Random(seed);
        try (PrintStream out = new PrintStream(Files.newOutputStream(file))) {
            for (int i = 0; i < count; i++) {
                String kind = Payloads.KINDS[random.nextInt(Payloads.KINDS.length)];
                int size = (int) Math.exp(random.nextDouble() * Math.log(250_000));
                digests(kind, random.nextInt(1_000_000), size, out, true);
            }
        }
    }

    private static void digests(String kind, long seed, int size, PrintStream out, boolean allLevels) throws Exception {
        byte[] payload = Payloads.make(kind, seed, size);
        for (CompressionType type : CompressionType.values()) {
            int[] levels = switch (type) {
                case NONE -> new int[0];
                case GZIP -> GZIP_LEVELS;
                case SNAPPY -> NO_LEVELS;
                case LZ4 -> LZ4_LEVELS;
                case ZSTD -> ZSTD_LEVELS;
            };
            for (int level : allLevels ? levels : someLevels(type)) {
                // The highest levels of zstd clear hundreds of megabytes first: now and then will do.
                if (type == CompressionType.NONE || (type == CompressionType.ZSTD && level > 19 && seed % 40 != 1))
                    continue;
                for (byte magic : type == CompressionType.LZ4 ? new byte[] {0, 2} : new byte[] {2}) {
                    byte[] bytes = compress(type, level, magic, payload, seed);
                    out.println(kind + " " + seed + " " + size + " " + type.name + " " + level + " " + magic + " "
                        + bytes.length + " " + crc(bytes, bytes.length));
                }
            }
        }
    }

    private static Compression compression(CompressionType type, int level) {
        return switch (type) {
            case NONE -> Compression.NONE;
            case GZIP -> Compression.gzip().level(level).build();
            case SNAPPY -> Compression.snappy().build();
            case LZ4 -> Compression.lz4().level(level).build();
            case ZSTD -> Compression.zstd().level(level).build();
        };
    }

    /** Writes in pieces of random size, as records come. */
    private static byte[] compress(CompressionType type, int level, byte magic, byte[] payload, long seed) throws Exception {
        Random pieces = new Random(seed);
        ByteBufferOutputStream buffer = new ByteBufferOutputStream(512);
        try (OutputStream out = new java.io.DataOutputStream(compression(type, level).wrapForOutput(buffer, magic))) {
            int position = 0;
            while (position < payload.length) {
                int size = Math.min(payload.length - position, 1 + pieces.nextInt(pieces.nextInt(10) == 0 ? 100_000 : 100));
                out.write(payload, position, size);
                position += size;
            }
        }
        ByteBuffer bytes = buffer.buffer();
        bytes.flip();
        byte[] result = new byte[bytes.remaining()];
        bytes.get(result);
        return result;
    }

    private static String crc(byte[] bytes, int size) {
        CRC32C crc = new CRC32C();
        crc.update(bytes, 0, size);
        return String.format("%08x", crc.getValue());
    }

    private static void decode(int count, long seed, Path file) throws Exception {
        Random random = new Random(seed);
        CompressionType[] types = {CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD};
        try (PrintStream out = new PrintStream(Files.newOutputStream(file))) {
            for (int i = 0; i < count; i++) {
                CompressionType type = types[i % types.length];
                byte magic = (byte) (type == CompressionType.LZ4 ? random.nextInt(2) * 2 : 2);
                String kind = Payloads.KINDS[random.nextInt(Payloads.KINDS.length)];
                byte[] payload = Payloads.make(kind, random.nextInt(1000), random.nextInt(120));
                int level = type == CompressionType.SNAPPY ? 0 : someLevels(type)[random.nextInt(2)];
                byte[] bytes = compress(type, level, magic, payload, 1);
                byte[] other = compress(type, level, magic, Payloads.make("words", 1, 20), 1);
                byte[] damaged = damage(type, bytes, other, random);
                out.println(type.name + " " + magic + " " + HexFormat.of().formatHex(damaged) + " " + answer(type, magic, damaged));
            }
        }
    }

    private static byte[] damage(CompressionType type, byte[] bytes, byte[] other, Random random) {
        switch (random.nextInt(8)) {
            case 0:
                return bytes;
            case 1:
                return Arrays.copyOf(bytes, random.nextInt(bytes.length + 1));
            case 2: {
                byte[] longer = Arrays.copyOf(bytes, bytes.length + 1 + random.nextInt(40));
                if (random.nextBoolean())
                    for (int i = bytes.length; i < longer.length; i++)
                        longer[i] = (byte) random.nextInt();
                return longer;
            }
            case 3: {
                byte[] both = Arrays.copyOf(bytes, bytes.length + other.length);
                System.arraycopy(other, 0, both, bytes.length, other.length);
                return random.nextBoolean() ? both : Arrays.copyOf(both, bytes.length + random.nextInt(other.length));
            }
            case 4:
                // Snappy without the framing: one raw block.
                return type == CompressionType.SNAPPY && bytes.length > 20 ? Arrays.copyOfRange(bytes, 20, bytes.length) : bytes;
            case 5:
                bytes[random.nextInt(Math.min(bytes.length, 16))] ^= (byte) (1 << random.nextInt(8));
                return bytes;
            default:
                bytes[random.nextInt(bytes.length)] ^= (byte) (1 << random.nextInt(8));
                return bytes;
        }
    }

    private static String answer(CompressionType type, byte magic, byte[] bytes) {
        ByteArrayOutputStream plain = new ByteArrayOutputStream();
        try (InputStream in = compression(type, defaultLevel(type))
                .wrapForInput(ByteBuffer.wrap(bytes), magic, BufferSupplier.NO_CACHING)) {
            in.transferTo(plain);
        } catch (Throwable e) {
            return "error";
        }
        byte[] result = plain.toByteArray();
        return "ok " + result.length + " " + crc(result, result.length);
    }

    private static int defaultLevel(CompressionType type) {
        return type == CompressionType.SNAPPY ? 0 : type.defaultLevel();
    }
}
