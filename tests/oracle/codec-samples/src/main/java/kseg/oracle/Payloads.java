package kseg.oracle;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** Payloads that a seed determines; {@code tests/common/payloads.rs} makes the same ones. */
final class Payloads {
    static final String[] KINDS = {"random", "zeros", "runs", "words", "rows", "mixed"};

    private static final String[] WORDS = {
        "order", "payment", "shipped", "cancelled", "customer", "42", "EUR", "true", "null", "2024-01-01", "a", "the"
    };

    private long state;

    private Payloads(long seed) {
        state = seed * 0x9e3779b97f4a7c15L + 1;
    }

    /** A number below {@code bound} from a xorshift generator. */
    private int below(int bound) {
        state ^= state << 13;
        state ^= state >>> 7;
        state ^= state << 17;
        return (int) Long.remainderUnsigned(state >>> 11, bound);
    }

    static byte[] make(String kind, long seed, int size) {
        Payloads payloads = new Payloads(seed);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        int row = 0;
        while (out.size() < size) {
            String piece = kind.equals("mixed") ? KINDS[payloads.below(5)] : kind;
            payloads.piece(piece, row++, out);
        }
        byte[] bytes = out.toByteArray();
        return java.util.Arrays.copyOf(bytes, size);
    }

    private void piece(String kind, int row, ByteArrayOutputStream out) {
        switch (kind) {
            case "random" -> {
                for (int i = 0; i < 64; i++)
                    out.write(below(256));
            }
            case "zeros" -> out.writeBytes(new byte[64]);
            case "runs" -> {
                int value = below(256);
                int length = 1 + below(300);
                for (int i = 0; i < length; i++)
                    out.write(value);
            }
            case "words" -> text(out, WORDS[below(WORDS.length)] + " ");
            case "rows" -> text(out, "{\"id\":" + row + ",\"amount\":" + below(100000) + ",\"state\":\""
                + WORDS[below(WORDS.length)] + "\"}\n");
            default -> throw new IllegalArgumentException(kind);
        }
    }

    private static void text(ByteArrayOutputStream out, String text) {
        out.writeBytes(text.getBytes(StandardCharsets.US_ASCII));
    }
}
