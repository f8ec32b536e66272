// Resolves the variables of a properties file with Apache Kafka's own config providers.
//
// One request a line: an object of keys and values. The response is one line: the resolved object, or one with "failed".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;

public class ConfigProviders {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<?, ?> given = json.readValue(line, Map.class);
            Map<String, ?> resolved;
            try {
                resolved = new AbstractConfig(new ConfigDef(), given, Map.of(), false).originals();
            } catch (Exception error) {
                resolved = Map.of("failed", error.getClass().getSimpleName());
            }
            System.out.println(json.writeValueAsString(resolved));
            System.out.flush();
        }
    }
}
