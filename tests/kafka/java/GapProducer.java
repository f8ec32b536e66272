// A producer of Apache Kafka's that sends a record every few milliseconds and measures how long none is acknowledged.
// Lines asked: "start <bootstrap> <topic> <partitions>"; "reset"; "gap <partition>", the longest time without an
// acknowledgement since the reset; "waiting", how long the partition that waits longest does so now. In microseconds.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class GapProducer {
    static final int INTERVAL_MS = 5;
    static long[] lastNanos;
    static long[] longestNanos;

    static synchronized void begin(int partitions) {
        lastNanos = new long[partitions];
        longestNanos = new long[partitions];
        Arrays.fill(lastNanos, System.nanoTime());
    }

    static synchronized void acknowledged(int partition) {
        long now = System.nanoTime();
        longestNanos[partition] = Math.max(longestNanos[partition], now - lastNanos[partition]);
        lastNanos[partition] = now;
    }

    static synchronized void reset() {
        Arrays.fill(longestNanos, 0);
    }

    static synchronized long gapMicros(int partition) {
        return Math.max(longestNanos[partition], System.nanoTime() - lastNanos[partition]) / 1000;
    }

    static synchronized long waitingMicros() {
        return (System.nanoTime() - Arrays.stream(lastNanos).min().getAsLong()) / 1000;
    }

    static void produce(String bootstrap, String topic, int partitions) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("linger.ms", "0");
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            while (true) {
                for (int partition = 0; partition < partitions; partition++) {
                    int number = partition;
                    producer.send(new ProducerRecord<>(topic, number, null, new byte[100]), (metadata, error) -> {
                        if (error == null) acknowledged(number);
                    });
                }
                Thread.sleep(INTERVAL_MS);
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "start" -> {
                    int partitions = Integer.parseInt(words[3]);
                    begin(partitions);
                    Thread thread = new Thread(() -> produce(words[1], words[2], partitions));
                    thread.setDaemon(true);
                    thread.start();
                    System.out.println("started");
                }
                case "reset" -> {
                    reset();
                    System.out.println("reset");
                }
                case "gap" -> System.out.println(gapMicros(Integer.parseInt(words[1])));
                default -> System.out.println(waitingMicros());
            }
        }
    }
}
