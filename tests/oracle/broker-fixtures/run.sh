#!/bin/sh
# Builds the generator and makes the named fixtures ("list" shows the names, "all" makes every one).
# Environment: FX_WORK (scratch), FX_OUT (output folder), FX_PORT (first TCP port).
set -e
cd "$(dirname "$0")"
mvn -q -B compile dependency:build-classpath -Dmdep.outputFile=target/classpath.txt
exec java -Dorg.slf4j.simpleLogger.defaultLogLevel=off \
  -Dfx.work="${FX_WORK:-target/work}" -Dfx.out="${FX_OUT:-target/out}" \
  -Dfx.port="${FX_PORT:-20000}" -Dfx.clients="$PWD/clients" \
  -cp "target/classes:$(cat target/classpath.txt)" fixtures.Main "$@"
