// Reads a record of __consumer_offsets with Apache Kafka's own classes, and prints what it says and how Kafka writes it.
//
// One request a line: key and value in hexadecimal, "-" for a tombstone.
// The answer is one line: OK, key and value as Kafka writes them, key and value as JSON, or FAILED with the exception.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;

import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;

public class GroupRecords {
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            System.out.println(answer(line.trim().split(" ")));
            System.out.flush();
        }
    }

    private static String answer(String[] request) {
        try {
            ByteBuffer value = request[1].equals("-") ? null : bytes(request[1]);
            CoordinatorRecord record = (CoordinatorRecord) SERDE.deserialize(bytes(request[0]), value);
            String json = record.value() == null ? "null"
                : CoordinatorRecordJsonConverters
                    .writeRecordValueAsJson(record.value().message(), record.value().version()).toString();
            byte[] written = SERDE.serializeValue(record);
            return String.join("\t", "OK",
                HexFormat.of().formatHex(SERDE.serializeKey(record)),
                written == null ? "-" : HexFormat.of().formatHex(written),
                CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()).toString(), json);
        } catch (Exception error) {
            return "FAILED\t" + error.getClass().getSimpleName();
        }
    }

    private static ByteBuffer bytes(String hexadecimal) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(hexadecimal));
    }
}
