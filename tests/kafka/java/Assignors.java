// Asks Apache Kafka's own assignors of consumer groups to share partitions among members.
//
// One request a line, of JSON: the assignor, whether all members read the same, partitions by topic, and members with
// id, instance id, topics and what they have. The answer is one line of JSON: partitions by member and topic.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignorException;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            System.out.println(answer(JSON.readTree(line)));
            System.out.flush();
        }
    }

    private static String answer(JsonNode request) {
        ConsumerGroupPartitionAssignor assignor =
            request.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new LinkedHashMap<>();
        for (JsonNode member : request.get("members")) {
            String id = member.get("id").asText();
            Set<Uuid> topics = new LinkedHashSet<>();
            member.get("topics").forEach(topic -> topics.add(Uuid.fromString(topic.asText())));
            Map<Uuid, Set<Integer>> assigned = new LinkedHashMap<>();
            member.get("assigned").fields().forEachRemaining(entry -> {
                Uuid topic = Uuid.fromString(entry.getKey());
                Set<Integer> partitions = assigned.computeIfAbsent(topic, key -> new LinkedHashSet<>());
                entry.getValue().forEach(partition -> {
                    partitions.add(partition.asInt());
                    owners.computeIfAbsent(topic, key -> new LinkedHashMap<>()).put(partition.asInt(), id);
                });
            });
            Optional<String> instance = Optional.ofNullable(member.get("instance").textValue());
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, topics, new Assignment(assigned)));
        }
        SubscriptionType type =
            request.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        ObjectNode answer = JSON.createObjectNode();
        try {
            assignor.assign(new GroupSpecImpl(members, type, owners), new Topics(request.get("counts")))
                .members().forEach((id, assignment) -> {
                    ObjectNode topics = answer.putObject(id);
                    assignment.partitions().forEach((topic, partitions) ->
                        partitions.stream().sorted().forEach(topics.withArray(topic.toString())::add));
                });
        } catch (PartitionAssignorException error) {
            return "{\"failed\": {}}";
        }
        return answer.toString();
    }

    private record Topics(JsonNode counts) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return counts.path(topic.toString()).asInt(-1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }
}
