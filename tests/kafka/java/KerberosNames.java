// Maps Kerberos principals to names with Apache Kafka's own rules.
//
// One request a line: an object with "rules" (a list) and "principal". The response is one line: "ok" and the name,
// "invalid" for rules that cannot be parsed, or "none".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

public class KerberosNames {
    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<?, ?> given = json.readValue(line, Map.class);
            System.out.println(response((List<String>) given.get("rules"), (String) given.get("principal")));
            System.out.flush();
        }
    }

    private static String response(List<String> rules, String principal) {
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules("REALM", rules);
        } catch (RuntimeException error) {
            return "invalid";
        }
        try {
            return "ok " + namer.shortName(KerberosName.parse(principal));
        } catch (Exception error) {
            return "none";
        }
    }
}
