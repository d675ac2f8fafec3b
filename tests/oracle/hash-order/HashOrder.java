import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * Writes golden.txt: what java.util.HashMap of the running JVM does with Long keys.
 *
 * Each case is a line "case NAME", then one line per operation: "put K...", "compute K...",
 * "remove K..." (through the iterator, as removeIf does), "clear", and "order FNV SIZE K...", the
 * keys in iteration order (their 64-bit FNV-1a over eight big-endian bytes each, how many, and the
 * first twelve).
 *
 * Run: java HashOrder.java > golden.txt
 */
public final class HashOrder {
    private static final StringBuilder OUT = new StringBuilder();
    private static final int SHOWN = 12;

    public static void main(String[] args) {
        SplittableRandom rng = new SplittableRandom(20);
        for (int i = 0; i < 12; i++) run("small-" + i, rng, keys(rng, 40, 60), 6);
        for (int i = 0; i < 3; i++) run("random-" + i, rng, randomKeys(rng, 150), 6);
        for (int i = 0; i < 10; i++) run("one-chain-" + i, rng, colliding(rng, 12 + 3 * i, 1 << 16), 8);
        for (int i = 0; i < 12; i++) run("few-chains-" + i, rng, colliding(rng, 30 + 8 * i, 64 << (i % 6)), 10);
        for (int i = 0; i < 6; i++) run("same-hash-" + i, rng, sameHash(rng, 25 + 8 * i), 10);
        for (int i = 0; i < 4; i++) run("mixed-" + i, rng, mixed(rng, 100), 12);
        System.out.print(OUT);
    }

    /** Fills, removes and clears at random; both maps of Kafka's use are put and compute. */
    private static void run(String name, SplittableRandom rng, List<Long> keys, int rounds) {
        Map<Long, Long> map = new HashMap<>();
        OUT.append("case ").append(name).append('\n');
        for (int round = 0; round < rounds; round++) {
            int what = rng.nextInt(10);
            if (what < 4) {
                List<Long> some = some(rng, keys, rng.nextInt(keys.size()) + 1);
                line("put", some);
                some.forEach(k -> map.put(k, k));
            } else if (what < 7) {
                List<Long> some = some(rng, keys, rng.nextInt(keys.size()) + 1);
                line("compute", some);
                some.forEach(k -> map.computeIfAbsent(k, x -> x));
            } else if (what < 9 || round < 3) {
                List<Long> some = some(rng, keys, rng.nextInt(keys.size()) + 1);
                line("remove", some);
                java.util.Set<Long> gone = new java.util.HashSet<>(some);
                map.entrySet().removeIf(e -> gone.contains(e.getKey()));
            } else {
                OUT.append("clear\n");
                map.clear();
            }
            order(map);
        }
    }

    private static void order(Map<Long, Long> map) {
        long fnv = 0xcbf29ce484222325L;
        List<Long> first = new ArrayList<>();
        for (long key : map.keySet()) {
            for (int shift = 56; shift >= 0; shift -= 8)
                fnv = (fnv ^ (key >>> shift & 0xff)) * 0x100000001b3L;
            if (first.size() < SHOWN) first.add(key);
        }
        OUT.append("order ").append(String.format("%016x", fnv)).append(' ').append(map.size());
        first.forEach(k -> OUT.append(' ').append(k));
        OUT.append('\n');
    }

    private static void line(String operation, List<Long> keys) {
        OUT.append(operation);
        keys.forEach(k -> OUT.append(' ').append(k));
        OUT.append('\n');
    }

    private static List<Long> some(SplittableRandom rng, List<Long> keys, int count) {
        List<Long> out = new ArrayList<>();
        for (int i = 0; i < count; i++) out.add(keys.get(rng.nextInt(keys.size())));
        return out;
    }

    private static List<Long> keys(SplittableRandom rng, int count, int bound) {
        List<Long> out = new ArrayList<>();
        for (int i = 0; i < count; i++) out.add(1000L + rng.nextInt(bound));
        return out;
    }

    private static List<Long> randomKeys(SplittableRandom rng, int count) {
        List<Long> out = new ArrayList<>();
        for (int i = 0; i < count; i++) out.add(rng.nextLong());
        return out;
    }

    /** Keys that fall into one bucket as long as the table is no larger than step. */
    private static List<Long> colliding(SplittableRandom rng, int count, int step) {
        List<Long> out = new ArrayList<>();
        for (int i = 0; i < count; i++) out.add((long) rng.nextInt(30_000 / count + 400) * step);
        return out;
    }

    /** Keys whose hashes are all equal: the tree is ordered by key alone. */
    private static List<Long> sameHash(SplittableRandom rng, int count) {
        List<Long> out = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            long half = rng.nextInt();
            out.add(half << 32 | (half & 0xffffffffL));
        }
        return out;
    }

    private static List<Long> mixed(SplittableRandom rng, int count) {
        List<Long> out = new ArrayList<>(sameHash(rng, count / 4));
        out.addAll(colliding(rng, count / 2, 256));
        out.addAll(randomKeys(rng, count / 4));
        return out;
    }
}
