// Shows a producer's batch to Apache Kafka's own validator and prints what it makes of it.
//
// One request a line: the batch in hexadecimal, whether the topic is compacted, whether it sets LogAppendTime, the
// timestamp bounds before and after, compression.type, now.
// The answer is one line: OK and the batch, REFUSED with code, message and refused records, or FAILED with the code.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.function.Supplier;
import java.util.stream.Collectors;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

public class ValidateBatch {
    private static final TopicPartition PARTITION = new TopicPartition("orders", 3);

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            System.out.println(answer(line.trim().split(" ")));
            System.out.flush();
        }
    }

    private static String answer(String[] request) {
        try {
            ByteBuffer validated = validate(request).validatedRecords().buffer();
            byte[] bytes = new byte[validated.remaining()];
            validated.get(bytes);
            return "OK\t" + HexFormat.of().formatHex(bytes);
        } catch (RecordValidationException refusal) {
            Exception reason = refusal.invalidException();
            String records = refusal.recordErrors().stream()
                .map(error -> error.batchIndex + " " + error.message)
                .collect(Collectors.joining("\t"));
            return "REFUSED\t" + Errors.forException(reason) + "\t" + reason.getMessage() + "\t" + records;
        } catch (Throwable error) {
            return "FAILED\t" + Errors.forException(error);
        }
    }

    private static LogValidator.ValidationResult validate(String[] request) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(request[0])));
        CompressionType source = records.batches().iterator().next().compressionType();
        Compression target =
            request[5].equals("producer") ? Compression.of(source).build()
                : request[5].equals("uncompressed") ? Compression.NONE
                : Compression.of(request[5]).build();
        TimestampType timestampType =
            Boolean.parseBoolean(request[2]) ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        LogValidator validator = new LogValidator(
            records, PARTITION, new FixedTime(Long.parseLong(request[6])), source, target,
            Boolean.parseBoolean(request[1]), (byte) 2, timestampType, Long.parseLong(request[3]),
            Long.parseLong(request[4]), -1, AppendOrigin.CLIENT);
        return validator.validateMessagesAndAssignOffsets(
            PrimitiveRef.ofLong(0), new NoMetrics(), BufferSupplier.NO_CACHING);
    }

    private static class NoMetrics implements LogValidator.MetricsRecorder {
        @Override
        public void recordInvalidMagic() { }

        @Override
        public void recordInvalidOffset() { }

        @Override
        public void recordInvalidSequence() { }

        @Override
        public void recordInvalidChecksums() { }

        @Override
        public void recordNoKeyCompactedTopic() { }
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
