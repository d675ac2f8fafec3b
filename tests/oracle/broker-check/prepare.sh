# For scripts/broker-check and scripts/broker-live, which set `root`, `kseg` and `keep`: builds what they run, makes the folder
# they work in (`work`), and sets `from` and `classpath`.
me=$(basename "$0")
for tool in java javac mvn; do
  if ! command -v "$tool" > /dev/null; then
    echo "$me: $tool is not on this machine; nothing was checked (needs JDK 17 or newer and Maven)" >&2
    exit 3
  fi
done
if [ ! -x "$kseg" ] && [ "$kseg" = "$root/target/release/kseg" ]; then
  (cd "$root" && cargo build --release --quiet)
fi
kseg=$(cd "$(dirname "$kseg")" && pwd)/$(basename "$kseg")
from=$root/tests/oracle/broker-check
build=${KSEG_ORACLE_BUILD:-$root/target/oracle}/broker-check
jar=$build/broker-check-1.jar
if [ ! -f "$jar" ] || [ -n "$(find "$from/src" "$from/pom.xml" -newer "$jar" -print -quit)" ]; then
  mvn -q -f "$from/pom.xml" -DbuildDirectory="$build" package >&2
fi
if [ -n "$keep" ]; then
  mkdir -p "$keep"
  if [ -n "$(ls -A "$keep")" ]; then
    echo "$me: $keep is not empty" >&2
    exit 2
  fi
  work=$(cd "$keep" && pwd)
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM HUP
fi
classpath=$jar:$build/lib/*
