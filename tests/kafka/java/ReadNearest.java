// Reads a partition with Apache Kafka's own consumer and says whom it was sent to.
//
// One request a line: bootstrap servers, client.rack, topic, how many records. The answer: the records that came, and the
// broker that the consumer reads from by the leader's advice, -1 for the leader itself.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ReadNearest {
    private static final long PATIENCE_MS = 20_000;

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split(" ");
            System.out.println(read(words[0], words[1], words[2], Integer.parseInt(words[3])));
        }
    }

    private static String read(String servers, String rack, String topic, int wanted) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("client.rack", rack);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            int records = 0;
            double replica = -1;
            for (long end = System.currentTimeMillis() + PATIENCE_MS; records < wanted && System.currentTimeMillis() < end; ) {
                records += consumer.poll(Duration.ofMillis(100)).count();
                replica = preferredReplica(consumer);
            }
            return records + " " + (int) replica;
        }
    }

    private static double preferredReplica(KafkaConsumer<byte[], byte[]> consumer) {
        for (Metric metric : consumer.metrics().values()) {
            if (metric.metricName().name().equals("preferred-read-replica")) {
                return (int) metric.metricValue();
            }
        }
        return -1;
    }
}
