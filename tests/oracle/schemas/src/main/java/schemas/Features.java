package schemas;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** Which kinds of values the fields of messages have had: null, left out, empty, numbers of each size and sign. */
final class Features {
    private final Set<String> seen = new HashSet<>();
    private final Map<String, Set<String>> keys = new HashMap<>();

    /** Takes in what a message shows. Whether any of it is new. */
    boolean addAll(String path, JsonNode node) {
        boolean added = seen.add(path + " " + kind(node));
        if (node.isObject()) {
            Set<String> known = keys.computeIfAbsent(path, p -> new HashSet<>());
            node.fieldNames().forEachRemaining(known::add);
            for (String key : Set.copyOf(known)) {
                added |= node.has(key) ? addAll(path + "." + key, node.get(key)) : seen.add(path + "." + key + " left out");
            }
        }
        for (JsonNode element : node.isArray() ? node : Set.<JsonNode>of()) {
            added |= addAll(path + "[]", element);
        }
        return added;
    }

    private static String kind(JsonNode node) {
        if (node.isIntegralNumber()) {
            long number = node.asLong();
            // A type taken for another shows in the sign, in true and false, or beyond the width.
            return number < 0 ? "negative" : number < 2 ? "" + number : number < 1L << 15 ? "small" : "large";
        }
        if (node.isTextual() || node.isArray()) {
            return node.isArray() && node.isEmpty() || node.isTextual() && node.asText().isEmpty() ? "empty" : "not empty";
        }
        return node.isBoolean() ? node.asText() : node.getNodeType().toString();
    }
}
