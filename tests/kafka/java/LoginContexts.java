// Finds the login modules of a listener or of a client with Apache Kafka's own JaasContext.
//
// One request a line: an object with "file" and "inline", each a text or null, and "listener", which is null for a client.
// The response is one line: a list of objects with "module" and "options", or "failed".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.login.Configuration;

import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.JaasContext;

public class LoginContexts {
    public static void main(String[] arguments) throws Exception {
        System.setProperty("defined", "value");
        System.setProperty("empty", "");
        ObjectMapper json = new ObjectMapper();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<?, ?> given = json.readValue(line, Map.class);
            Object found;
            try {
                found = contexts(given).configurationEntries().stream()
                    .map(one -> Map.of("module", one.getLoginModuleName(), "options", new TreeMap<>(one.getOptions()))).toList();
            } catch (Throwable error) {
                found = "failed";
            }
            System.out.println(json.writeValueAsString(found));
            System.out.flush();
        }
    }

    private static JaasContext contexts(Map<?, ?> given) {
        if (given.get("file") == null) System.clearProperty("java.security.auth.login.config");
        else System.setProperty("java.security.auth.login.config", (String) given.get("file"));
        Configuration.setConfiguration(null);
        String inline = (String) given.get("inline"), listener = (String) given.get("listener");
        if (listener == null)
            return JaasContext.loadClientContext(inline == null ? Map.of() : Map.of("sasl.jaas.config", new Password(inline)));
        Map<String, ?> configs = inline == null ? Map.of() : Map.of("plain.sasl.jaas.config", new Password(inline));
        return JaasContext.loadServerContext(new ListenerName(listener), "PLAIN", configs);
    }
}
