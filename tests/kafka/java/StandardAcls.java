import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Runs Apache Kafka's authorizer. Each line is a JSON object with the configs, the ACLs of the first snapshot, the IDs
 * removed and the ACLs added after it, and checks. The response has, for each check, the host as Java prints it, whether
 * it is allowed, and whether any resource of the type is.
 */
public class StandardAcls {
    record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "test"; }
        public int correlationId() { return 0; }
    }

    static StandardAcl acl(JsonNode fields) {
        return new StandardAcl(
            ResourceType.fromCode((byte) fields.get(1).asInt()),
            fields.get(2).asText(),
            PatternType.fromCode((byte) fields.get(3).asInt()),
            fields.get(4).asText(),
            fields.get(5).asText(),
            AclOperation.fromCode((byte) fields.get(6).asInt()),
            AclPermissionType.fromCode((byte) fields.get(7).asInt()));
    }

    static Uuid id(JsonNode number) {
        return new Uuid(1, number.asLong());
    }

    static StandardAuthorizer authorizer(JsonNode request) {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), new LinkedHashMap<>()));
        authorizer.configure(Map.of(
            StandardAuthorizer.SUPER_USERS_CONFIG, request.get("super").asText(),
            StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, request.get("default").asText()));
        Map<Uuid, StandardAcl> snapshot = new HashMap<>();
        for (JsonNode fields : request.get("snapshot")) snapshot.put(id(fields.get(0)), acl(fields));
        authorizer.loadSnapshot(snapshot);
        for (JsonNode removed : request.get("removed")) authorizer.removeAcl(id(removed));
        for (JsonNode fields : request.get("added")) authorizer.addAcl(id(fields.get(0)), acl(fields));
        authorizer.completeInitialLoad();
        return authorizer;
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = lines.readLine()) != null) {
            JsonNode request = mapper.readTree(line);
            StandardAuthorizer authorizer = authorizer(request);
            ArrayNode results = mapper.createArrayNode();
            for (JsonNode check : request.get("checks")) {
                InetAddress address = InetAddress.getByName(check.get(2).asText());
                Client client = new Client(new KafkaPrincipal(check.get(0).asText(), check.get(1).asText()), address);
                AclOperation operation = AclOperation.fromCode((byte) check.get(3).asInt());
                ResourceType type = ResourceType.fromCode((byte) check.get(4).asInt());
                ResourcePattern resource = new ResourcePattern(type, check.get(5).asText(), PatternType.LITERAL);
                Action action = new Action(operation, resource, 1, false, false);
                AuthorizationResult allowed = authorizer.authorize(client, List.of(action)).get(0);
                AuthorizationResult any = authorizer.authorizeByResourceType(client, operation, type);
                results.addArray()
                    .add(address.getHostAddress())
                    .add(allowed == AuthorizationResult.ALLOWED)
                    .add(any == AuthorizationResult.ALLOWED);
            }
            System.out.println(mapper.writeValueAsString(results));
        }
    }
}
