// Members of a group, with Apache Kafka's own consumer: they share a topic, read it and commit.
//
// One request a line: read, bootstrap servers, group, topic, how many members, how many records, and the protocol if it
// is not the classic one. A topic that begins with ~ is a regular expression. The answer: how many records came, and how
// many partitions each member had once everybody had some. All have left then.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class GroupMembers {
    private static final long PATIENCE_MS = 40_000;

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split(" ");
            String protocol = words.length > 6 ? words[6] : "classic";
            System.out.println(
                read(words[1], words[2], words[3], Integer.parseInt(words[4]), Integer.parseInt(words[5]), protocol));
        }
    }

    private static String read(
        String servers, String group, String topic, int members, int wanted, String protocol) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            settings.put("heartbeat.interval.ms", "300");
        }
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        List<KafkaConsumer<byte[], byte[]>> consumers = new ArrayList<>();
        try {
            for (int number = 0; number < members; number++) {
                KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
                consumers.add(consumer);
                if (topic.startsWith("~")) {
                    consumer.subscribe(new SubscriptionPattern(topic.substring(1)));
                } else {
                    consumer.subscribe(List.of(topic));
                }
            }
            int records = 0;
            boolean allShare = false;
            long end = System.currentTimeMillis() + PATIENCE_MS;
            while ((records < wanted || !allShare) && System.currentTimeMillis() < end) {
                for (KafkaConsumer<byte[], byte[]> consumer : consumers) {
                    records += consumer.poll(Duration.ofMillis(50)).count();
                    consumer.commitSync();
                }
                allShare = consumers.stream().noneMatch(consumer -> consumer.assignment().isEmpty());
            }
            String shares = consumers.stream()
                .map(consumer -> String.valueOf(consumer.assignment().size()))
                .collect(Collectors.joining(","));
            return "records " + records + " shares " + shares;
        } catch (RuntimeException failure) {
            return "failed: " + failure;
        } finally {
            consumers.forEach(KafkaConsumer::close);
        }
    }
}
