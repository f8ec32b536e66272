import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaUtils;

/**
 * Apache Kafka's own rates and token buckets. Lines of input:
 *   new rate|bucket <windows> <window seconds> <limit>
 *   record <milliseconds> <value>: responds with the rate or the tokens, and with the throttle time
 */
public class Rates {
    private static final Metrics METRICS = new Metrics();
    private static Sensor sensor;
    private static KafkaMetric metric;
    private static boolean isBucket;
    private static int created = 0;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = input.readLine()) != null) {
            String[] words = line.split(" ");
            if (words[0].equals("new")) {
                create(words);
                System.out.println("created");
            } else {
                System.out.println(record(Long.parseLong(words[1]), Double.parseDouble(words[2])));
            }
            System.out.flush();
        }
    }

    private static void create(String[] words) {
        isBucket = words[1].equals("bucket");
        MetricConfig config = new MetricConfig()
            .samples(Integer.parseInt(words[2]))
            .timeWindow(Integer.parseInt(words[3]), TimeUnit.SECONDS)
            .quota(new Quota(Double.parseDouble(words[4]), true));
        MetricName name = METRICS.metricName("measured-" + created++, "test");
        sensor = METRICS.sensor(name.name());
        sensor.add(name, isBucket ? new TokenBucket() : new Rate(), config);
        metric = METRICS.metric(name);
    }

    private static String record(long timeMs, double value) {
        long delay = 0;
        try {
            sensor.record(value, timeMs, true);
        } catch (QuotaViolationException violation) {
            delay = isBucket
                ? ControllerMutationQuotaManager.throttleTimeMs(violation)
                : QuotaUtils.throttleTime(violation, timeMs);
        }
        return metric.measurable().measure(metric.config(), timeMs) + " " + delay;
    }
}
