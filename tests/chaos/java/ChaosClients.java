import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.NotEnoughReplicasException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Two producers, with and without retries, and a consumer of all partitions. Writes one line of JSON per event to
 * standard output. The line "produced" on standard input stops the producers; the end of the input stops everything.
 *
 * Arguments: bootstrap servers, topic, partitions, number of the retrying producer, number of the other one, records
 * per interval, interval in milliseconds, maximum sends in flight, bytes of a value, n for which every n-th value is
 * huge, bytes of a huge value.
 */
public class ChaosClients {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static volatile boolean enoughSent = false;
    private static volatile boolean enoughRead = false;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        int[] numbers = Arrays.stream(arguments, 2, arguments.length).mapToInt(Integer::parseInt).toArray();
        int partitions = numbers[0];
        Load load = new Load(topic, partitions, numbers[3], numbers[4], numbers[5], numbers[6], numbers[7], numbers[8]);
        Thread retrying = new Thread(() -> produce(bootstrap, numbers[1], true, load));
        Thread once = new Thread(() -> produce(bootstrap, numbers[2], false, load));
        Thread reading = new Thread(() -> consume(bootstrap, topic, partitions));
        for (Thread thread : List.of(retrying, once, reading)) thread.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("produced")) {
                enoughSent = true;
                retrying.join();
                once.join();
                say("{\"event\":\"produced\"}");
            }
        }
        enoughSent = true;
        enoughRead = true;
        reading.join();
        System.exit(0);
    }

    private record Load(
        String topic, int partitions, int perInterval, int intervalMs, int inFlightMax, int valueBytes, int hugeEvery,
        int hugeBytes) {}

    private static void produce(String bootstrap, int number, boolean retries, Load load) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("linger.ms", "5");
        settings.put("enable.idempotence", Boolean.toString(retries));
        if (!retries) {
            settings.put("retries", "0");
            settings.put("max.in.flight.requests.per.connection", "1");
            settings.put("request.timeout.ms", "8000");
            settings.put("delivery.timeout.ms", "10000");
        }
        int[] sequences = new int[load.partitions];
        AtomicInteger inFlight = new AtomicInteger();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int sent = 1; !enoughSent; ) {
                for (int i = 0; i < load.perInterval && inFlight.get() < load.inFlightMax && !enoughSent; i++, sent++) {
                    int partition = sent % load.partitions;
                    int sequence = sequences[partition]++;
                    boolean isHuge = !retries && sent % load.hugeEvery == 0;
                    byte[] value = value(number, partition, sequence, isHuge ? load.hugeBytes : load.valueBytes);
                    inFlight.incrementAndGet();
                    say("{\"event\":\"sent\",\"producer\":%d,\"partition\":%d,\"ns\":%d}"
                        .formatted(number, partition, System.nanoTime()));
                    producer.send(new ProducerRecord<>(load.topic, partition, null, value), (metadata, error) -> {
                        inFlight.decrementAndGet();
                        onCompletion(number, partition, sequence, error == null ? metadata.offset() : -1, error);
                    });
                }
                Thread.sleep(load.intervalMs);
            }
        } catch (Exception error) {
            say("{\"event\":\"broken\",\"producer\":%d,\"error\":\"%s\"}".formatted(number, quoted(error)));
        }
    }

    private static void onCompletion(int producer, int partition, int sequence, long offset, Exception error) {
        String where = "\"producer\":%d,\"partition\":%d,\"sequence\":%d,\"ns\":%d"
            .formatted(producer, partition, sequence, System.nanoTime());
        if (error == null) {
            say("{\"event\":\"acknowledged\",%s,\"offset\":%d}".formatted(where, offset));
        } else {
            // The broker returns these errors before it stores anything; with other errors the outcome is unknown.
            boolean definite = error instanceof NotEnoughReplicasException
                || error instanceof RecordTooLargeException || error instanceof InvalidRecordException;
            say("{\"event\":\"failed\",%s,\"definite\":%b,\"error\":\"%s\"}".formatted(where, definite, quoted(error)));
        }
    }

    private static void consume(String bootstrap, String topic, int partitions) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap,
            "enable.auto.commit", "false",
            // An offset out of range is an anomaly and must not be skipped.
            "auto.offset.reset", "none",
            "fetch.max.wait.ms", "100");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> all = new ArrayList<>();
            for (int partition = 0; partition < partitions; partition++) all.add(new TopicPartition(topic, partition));
            consumer.assign(all);
            for (TopicPartition one : all) consumer.seek(one, 0);
            while (!enoughRead) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(200))) {
                    String head = new String(one.value(), 0, Math.min(40, one.value().length), StandardCharsets.US_ASCII);
                    say("{\"event\":\"read\",\"partition\":%d,\"offset\":%d,\"value\":\"%s\"}"
                        .formatted(one.partition(), one.offset(), head));
                }
            }
        } catch (Exception error) {
            say("{\"event\":\"broken\",\"error\":\"the consumer: %s\"}".formatted(quoted(error)));
        }
    }

    private static byte[] value(int producer, int partition, int sequence, int size) {
        byte[] value = new byte[size];
        Arrays.fill(value, (byte) '.');
        byte[] head = "%d %d %d ".formatted(producer, partition, sequence).getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(head, 0, value, 0, head.length);
        return value;
    }

    private static String quoted(Exception error) {
        return error.toString().replaceAll("[^\\x20-\\x7e]", " ").replace("\\", "/").replace('"', '\'');
    }

    private static synchronized void say(String line) {
        OUT.println(line);
        OUT.flush();
    }
}
