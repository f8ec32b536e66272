import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A transactional writer, a copier and a read_committed reader. Writes one line of JSON per event to standard output.
 * The line "produced" on standard input stops the writer, "copied" the copier; the end of the input stops everything.
 *
 * Arguments: bootstrap servers, the two topics, the group, the names of writer and copier; then numbers: partitions,
 * writer, copier, milliseconds between two transactions, records copied at once, every n-th transaction that the writer
 * aborts, every n-th that it abandons, every n-th that the copier aborts, transaction timeout and session timeout in
 * milliseconds, seconds to retry; then the sizes of the transactions, cyclic.
 */
public class TransactionalClients {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static volatile boolean enoughWritten = false;
    private static volatile boolean enoughCopied = false;
    private static volatile boolean enoughRead = false;

    private static String bootstrap, ledger, copies, group;
    private static int partitions, intervalMs, copiedAtOnce, abortEvery, abandonEvery, copiersAbortEvery;
    private static int transactionTimeoutMs, sessionTimeoutMs, retryS;
    private static int[] sizes;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        ledger = arguments[1];
        copies = arguments[2];
        group = arguments[3];
        int[] numbers = Arrays.stream(arguments, 6, arguments.length).mapToInt(Integer::parseInt).toArray();
        partitions = numbers[0];
        intervalMs = numbers[3];
        copiedAtOnce = numbers[4];
        abortEvery = numbers[5];
        abandonEvery = numbers[6];
        copiersAbortEvery = numbers[7];
        transactionTimeoutMs = numbers[8];
        sessionTimeoutMs = numbers[9];
        retryS = numbers[10];
        sizes = Arrays.copyOfRange(numbers, 11, numbers.length);
        Thread writing = startThread("the writer", () -> write(new Transactions(arguments[4], numbers[1])));
        Thread copying = startThread("the copier", () -> copy(new Transactions(arguments[5], numbers[2])));
        Thread reading = startThread("the reader", TransactionalClients::read);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("produced")) {
                enoughWritten = true;
                writing.join();
                say("{\"event\":\"produced\"}");
            } else if (line.equals("copied")) {
                enoughCopied = true;
                copying.join();
                say("{\"event\":\"copied\"}");
            }
        }
        enoughWritten = enoughCopied = enoughRead = true;
        for (Thread thread : List.of(writing, copying, reading)) thread.join();
        System.exit(0);
    }

    private interface Work { void run() throws Exception; }

    private static Thread startThread(String name, Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception error) {
                String text = error.toString().replaceAll("[^\\x20-\\x7e]", " ").replace("\\", "/").replace('"', '\'');
                say("{\"event\":\"broken\",\"error\":\"%s: %s\"}".formatted(name, text));
                error.printStackTrace();
            }
        });
        thread.start();
        return thread;
    }

    /** Runs transactions under one transactional ID, and replaces the producer after a fatal error. */
    private static class Transactions {
        private final Properties settings = new Properties();
        private final int writer;
        private KafkaProducer<String, String> producer;
        int count = 0;

        Transactions(String name, int writer) {
            this.writer = writer;
            settings.put("bootstrap.servers", bootstrap);
            settings.put("transactional.id", name);
            settings.put("transaction.timeout.ms", transactionTimeoutMs);
            settings.put("max.block.ms", 20_000);
        }

        /** Returns whether the transaction was committed. */
        boolean run(
            int[] places, String[] sources, boolean commits, Map<TopicPartition, OffsetAndMetadata> offsets,
            ConsumerGroupMetadata member) {
            KafkaProducer<String, String> mine = getProducer();
            int number = begin(places);
            boolean isCommitRequested = false;
            try {
                mine.beginTransaction();
                send(mine, number, places, sources);
                if (member != null) retry(() -> mine.sendOffsetsToTransaction(offsets, member));
                if (!commits) {
                    retry(mine::abortTransaction);
                    return end("aborted");
                }
                isCommitRequested = true;
                say("{\"event\":\"committing\",\"writer\":%d}".formatted(writer));
                retry(mine::commitTransaction);
                return end("committed");
            } catch (KafkaException | IllegalStateException error) {
                if (tryAbort(mine)) return end("aborted");
            }
            replace();
            // InitProducerId decides an unknown outcome before it returns. Until then, the copiers' offsets are pending,
            // and they could not read them to resume: without a new producer, until the transaction's timeout.
            getProducer();
            return end(isCommitRequested ? "unknown" : "aborted");
        }

        /** Leaves a transaction open after sending its records. The next producer with this ID aborts it. */
        void abandon(int[] places) {
            KafkaProducer<String, String> mine = getProducer();
            int number = begin(places);
            try {
                mine.beginTransaction();
                send(mine, number, places, null);
                mine.flush();
            } catch (KafkaException | IllegalStateException error) {
                say("{\"event\":\"replaced\"}");
            }
            mine.close(Duration.ZERO);
            producer = null;
        }

        private int begin(int[] places) {
            String all = IntStream.of(places).mapToObj(Integer::toString).collect(Collectors.joining(","));
            say("{\"event\":\"begun\",\"writer\":%d,\"places\":[%s],\"ns\":%d}".formatted(writer, all, System.nanoTime()));
            return count++;
        }

        private boolean end(String outcome) {
            say("{\"event\":\"ended\",\"writer\":%d,\"outcome\":\"%s\",\"ns\":%d}"
                .formatted(writer, outcome, System.nanoTime()));
            return outcome.equals("committed");
        }

        private void send(KafkaProducer<String, String> mine, int number, int[] places, String[] sources) {
            for (int index = 0; index < places.length; index++) {
                String value = "%d %d %d %d ".formatted(writer, number, index, places[index])
                    + (sources == null ? "" : sources[index]);
                String topic = places[index] < partitions ? ledger : copies;
                mine.send(new ProducerRecord<>(topic, places[index] % partitions, null, value));
            }
        }

        private boolean tryAbort(KafkaProducer<String, String> mine) {
            try {
                retry(mine::abortTransaction);
                return true;
            } catch (KafkaException | IllegalStateException error) {
                return false;
            }
        }

        private void replace() {
            say("{\"event\":\"replaced\"}");
            producer.close(Duration.ZERO);
            producer = null;
        }

        private KafkaProducer<String, String> getProducer() {
            if (producer == null) {
                producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
                retry(producer::initTransactions);
            }
            return producer;
        }
    }

    /** Repeats a call that timed out, which resumes the pending operation. */
    private static void retry(Runnable call) {
        long until = System.nanoTime() + retryS * 1_000_000_000L;
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                if (System.nanoTime() > until) throw error;
            }
        }
    }

    private static void write(Transactions transactions) throws InterruptedException {
        while (!enoughWritten) {
            int number = transactions.count;
            int size = sizes[number % sizes.length];
            int[] places = IntStream.range(0, size).map(index -> (number + index) % partitions).toArray();
            if (number % abandonEvery == abandonEvery - 1) transactions.abandon(places);
            else transactions.run(places, null, number % abortEvery != abortEvery - 1, null, null);
            Thread.sleep(intervalMs);
        }
        // End an abandoned transaction, which would otherwise block readers until its timeout.
        transactions.run(new int[] {0}, null, false, null, null);
    }

    private static void copy(Transactions transactions) {
        Map<String, Object> settings = new HashMap<>(reading());
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("partition.assignment.strategy", RangeAssignor.class.getName());
        settings.put("session.timeout.ms", sessionTimeoutMs);
        settings.put("max.poll.records", copiedAtOnce);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(ledger));
            while (!enoughCopied) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) continue;
                int[] places = new int[records.count()];
                String[] sources = new String[records.count()];
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                int index = 0;
                for (ConsumerRecord<String, String> record : records) {
                    places[index] = partitions + record.partition();
                    sources[index++] = record.value();
                    offsets.put(
                        new TopicPartition(ledger, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                boolean commits = transactions.count % copiersAbortEvery != copiersAbortEvery - 1;
                if (!transactions.run(places, sources, commits, offsets, consumer.groupMetadata())) rewind(consumer);
            }
        }
    }

    /** Seeks to the committed offsets. */
    private static void rewind(KafkaConsumer<String, String> consumer) {
        retry(() -> consumer.committed(consumer.assignment()).forEach((partition, offset) -> {
            if (offset == null) consumer.seekToBeginning(List.of(partition));
            else consumer.seek(partition, offset);
        }));
    }

    private static void read() {
        Map<String, Object> settings = new HashMap<>(reading());
        // An offset out of range is an anomaly and must not be skipped.
        settings.put("auto.offset.reset", "none");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> all = new ArrayList<>();
            for (int partition = 0; partition < partitions; partition++) {
                all.add(new TopicPartition(ledger, partition));
                all.add(new TopicPartition(copies, partition));
            }
            consumer.assign(all);
            for (TopicPartition one : all) consumer.seek(one, 0);
            while (!enoughRead) {
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(200))) {
                    int place = one.partition() + (one.topic().equals(ledger) ? 0 : partitions);
                    say("{\"event\":\"read\",\"place\":%d,\"offset\":%d,\"value\":\"%s\"}"
                        .formatted(place, one.offset(), one.value()));
                }
            }
        }
    }

    private static Map<String, Object> reading() {
        return Map.of(
            "bootstrap.servers", bootstrap, "enable.auto.commit", "false", "isolation.level", "read_committed",
            "fetch.max.wait.ms", "100");
    }

    private static synchronized void say(String line) {
        OUT.println(line);
        OUT.flush();
    }
}
