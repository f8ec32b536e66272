// Runs Apache Kafka's own log cleaner over a partition's directory and prints what is left.
//
// One request a line: directory, segment.bytes, delete.retention.ms, now, first dirty offset, recovery point.
// The answer: a line END, then for every segment a line S, for every batch B, record R and aborted transaction T,
// and at last DONE.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class CleanLog {
    private static final int BUFFER_BYTES = 64 * 1024;
    private static final int MAP_BYTES = 256 * 1024;
    private static final double UNLIMITED = 1e18;

    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            try {
                answer(line.trim().split(" "), scheduler);
            } catch (Throwable error) {
                System.out.println("FAILED " + error);
            }
            System.out.println("DONE");
            System.out.flush();
        }
        System.exit(0);
    }

    private static void answer(String[] request, KafkaScheduler scheduler) throws Exception {
        long now = Long.parseLong(request[3]);
        long firstDirty = Long.parseLong(request[4]);
        Time time = new FixedTime(now);
        UnifiedLog log = UnifiedLog.create(
            new File(request[0]), config(request[1], request[2]), 0L, Long.parseLong(request[5]), scheduler,
            new BrokerTopicStats(), time, Integer.MAX_VALUE, new ProducerStateManagerConfig(Integer.MAX_VALUE, false),
            600_000, new LogDirFailureChannel(1), true, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        long limit = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
        LogToClean toClean = new LogToClean(log, firstDirty, Math.max(firstDirty, limit), false);
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(MAP_BYTES), BUFFER_BYTES, BUFFER_BYTES, 0.9,
            new Throttler(UNLIMITED, 300, "cleaner", "bytes", time), time, partition -> { });
        long end = cleaner.doClean(toClean, now).getKey();
        System.out.println("END " + end + " " + toClean.firstUncleanableOffset() + " " + toClean.cleanBytes()
            + " " + toClean.cleanableBytes());
        for (LogSegment segment : log.logSegments())
            print(segment);
        log.close();
    }

    private static LogConfig config(String segmentBytes, String deleteRetentionMs) {
        Map<String, String> values = new HashMap<>();
        values.put("cleanup.policy", "compact");
        values.put("internal.segment.bytes", segmentBytes);
        values.put("delete.retention.ms", deleteRetentionMs);
        values.put("segment.ms", Long.toString(Long.MAX_VALUE));
        values.put("file.delete.delay.ms", "0");
        return new LogConfig(values);
    }

    private static void print(LogSegment segment) {
        System.out.println("S " + segment.baseOffset());
        for (RecordBatch batch : segment.log().batches()) {
            System.out.println("B " + batch.baseOffset() + " " + batch.lastOffset() + " " + batch.countOrNull() + " "
                + batch.producerId() + " " + batch.producerEpoch() + " " + batch.baseSequence() + " "
                + batch.isTransactional() + " " + batch.isControlBatch() + " " + batch.compressionType().id + " "
                + batch.maxTimestamp() + " " + batch.deleteHorizonMs().orElse(-1) + " " + batch.partitionLeaderEpoch());
            batch.forEach(record -> System.out.println("R " + record.offset() + " " + record.timestamp() + " "
                + hex(record.key()) + " " + hex(record.value())));
        }
        segment.txnIndex().allAbortedTxns().forEach(aborted -> System.out.println("T " + aborted.producerId() + " "
            + aborted.firstOffset() + " " + aborted.lastOffset() + " " + aborted.lastStableOffset()));
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return "x" + HexFormat.of().formatHex(bytes);
    }

    private record FixedTime(long milliseconds) implements Time {
        @Override
        public long nanoseconds() {
            return milliseconds * 1_000_000;
        }

        @Override
        public long hiResClockMs() {
            return milliseconds;
        }

        @Override
        public void sleep(long ms) { }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }

        @Override
        public Timer timer(long timeout) {
            throw new UnsupportedOperationException();
        }
    }
}
