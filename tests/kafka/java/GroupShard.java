// Apache Kafka's own group coordinator, one partition of it, in a time and over a log that only the caller moves.
//
// One request a line, of JSON: {"do": ..., "now": ms, "version": API version, "client": client id, "token": n, "request": ...}
// The answer is one line of JSON: the records to be written, the answers given by now as [token, answer], the ids of
// the group's members, and the error that a request was refused with. Nothing is committed before "commit" says so.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.GroupMetadataManager;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.ModernGroup;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.timeline.SnapshotRegistry;

public class GroupShard {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final short JOIN = JoinGroupRequestData.HIGHEST_SUPPORTED_VERSION;
    private static final short SYNC = SyncGroupRequestData.HIGHEST_SUPPORTED_VERSION;

    private final VirtualTime time = new VirtualTime();
    private final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    private final Deque<Runnable> uncommitted = new ArrayDeque<>();
    private final List<Consumer<GroupCoordinatorShard>> log = new ArrayList<>();
    private final GroupCoordinatorConfig config;
    private final GroupConfigManager groupConfigs;
    private Cluster cluster = new Cluster(0, List.of());
    private BackgroundWork work;
    private VirtualTimer timer;
    private SnapshotRegistry snapshots;
    private GroupCoordinatorShard shard;
    private long written = 0;
    private long committed = 0;
    private ObjectNode answer;

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        GroupShard shard = null;
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = JSON.readTree(line);
            if (request.get("do").asText().equals("start")) {
                shard = new GroupShard(request);
                System.out.println("{}");
            } else {
                System.out.println(shard.answer(request));
            }
            System.out.flush();
        }
    }

    private GroupShard(JsonNode request) {
        time.milliseconds = request.get("now").asLong();
        Map<String, Object> settings = new HashMap<>();
        request.get("settings").fields().forEachRemaining(one -> settings.put(one.getKey(), one.getValue().asText()));
        config = GroupCoordinatorConfig.fromProps(settings);
        ShareGroupConfig shares = ShareGroupConfig.fromProps(Map.of());
        groupConfigs = new GroupConfigManager(config.extractGroupConfigMap(shares), config, shares);
        load();
    }

    // What is committed is there for whoever leads next; the rest is lost, and nobody who waits is answered.
    private void load() {
        timer = new VirtualTimer();
        snapshots = new SnapshotRegistry(new LogContext());
        uncommitted.clear();
        written = committed;
        log.subList((int) committed, log.size()).clear();
        work = new BackgroundWork();
        snapshots.idempotentCreateSnapshot(0);
        GroupCoordinatorShard.Builder builder = new GroupCoordinatorShard.Builder(config, groupConfigs);
        builder.withAuthorizerPlugin(Optional.empty());
        shard = builder
            .withLogContext(new LogContext())
            .withTime(time)
            .withTimer(timer)
            .withExecutor(work)
            .withCoordinatorMetrics(new GroupCoordinatorMetrics())
            .withTopicPartition(new TopicPartition("__consumer_offsets", 0))
            .withSnapshotRegistry(snapshots)
            .build();
        log.forEach(entry -> entry.accept(shard));
        snapshots.idempotentCreateSnapshot(written);
        shard.onLoaded(cluster);
    }

    private String answer(JsonNode request) throws Exception {
        answer = JSON.createObjectNode();
        answer.putArray("records");
        answer.putArray("answers");
        time.milliseconds = request.path("now").asLong();
        try {
            if (request.path("looks-again").asBoolean()) {
                lookAgainAndPerform(request);
            } else {
                perform(request);
            }
        } catch (RuntimeException error) {
            answer.put("error", Errors.forException(error).name());
            answer.put("message", error.getMessage());
        }
        if (request.has("group")) {
            ArrayNode members = answer.putArray("members");
            shard.describeGroups(new Context((short) 5, ""), List.of(request.get("group").asText()), Long.MAX_VALUE)
                .forEach(group -> {
                    answer.put("state", group.groupState());
                    group.members().forEach(member -> members.add(member.memberId()));
                });
        }
        return answer.toString();
    }

    // Kafka goes by who wanted what before, where nothing tells it to look again: this does, for one request.
    private void lookAgainAndPerform(JsonNode request) throws Exception {
        Field groups = GroupCoordinatorShard.class.getDeclaredField("groupMetadataManager");
        groups.setAccessible(true);
        GroupMetadataManager manager = (GroupMetadataManager) groups.get(shard);
        Map<ModernGroup<?>, ModernGroup.DeadlineAndEpoch> deadlines = new HashMap<>();
        for (String id : manager.groupIds()) {
            if (manager.group(id) instanceof ModernGroup<?> group) {
                deadlines.put(group, group.metadataRefreshDeadline());
                group.requestMetadataRefresh();
            }
        }
        try {
            perform(request);
        } finally {
            deadlines.forEach((group, former) -> {
                if (group.metadataRefreshDeadline().deadlineMs == 0) {
                    group.setMetadataRefreshDeadline(former.deadlineMs, former.epoch);
                }
            });
        }
    }

    private void perform(JsonNode request) throws Exception {
        JsonNode data = request.get("request");
        int token = request.path("token").asInt();
        Context context = new Context((short) request.path("version").asInt(), request.path("client").asText());
        switch (request.get("do").asText()) {
            case "join" -> {
                CompletableFuture<JoinGroupResponseData> joined = new CompletableFuture<>();
                joined.thenAccept(response -> give(token, JoinGroupResponseDataJsonConverter.write(response, JOIN)));
                write(shard.classicGroupJoin(context, JoinGroupRequestDataJsonConverter.read(data, JOIN), joined), null);
            }
            case "sync" -> {
                CompletableFuture<SyncGroupResponseData> synced = new CompletableFuture<>();
                synced.thenAccept(response -> give(token, SyncGroupResponseDataJsonConverter.write(response, SYNC)));
                write(shard.classicGroupSync(context, SyncGroupRequestDataJsonConverter.read(data, SYNC), synced), null);
            }
            case "heartbeat" -> write(
                shard.classicGroupHeartbeat(context, HeartbeatRequestDataJsonConverter.read(data, (short) 4)),
                response -> give(token, HeartbeatResponseDataJsonConverter.write(response, (short) 4)));
            case "leave" -> write(
                shard.classicGroupLeave(context, LeaveGroupRequestDataJsonConverter.read(data, (short) 5)),
                response -> give(token, LeaveGroupResponseDataJsonConverter.write(response, (short) 5)));
            case "consumer-heartbeat" -> write(
                shard.consumerGroupHeartbeat(
                    context, ConsumerGroupHeartbeatRequestDataJsonConverter.read(data, (short) 1)),
                response -> give(token, ConsumerGroupHeartbeatResponseDataJsonConverter.write(response, (short) 1)));
            case "commit-offsets" -> {
                OffsetCommitRequestData commit = OffsetCommitRequestDataJsonConverter.read(data, (short) 9);
                // As the broker around the coordinator has found them.
                commit.topics().forEach(topic -> topic.setTopicId(
                    cluster.topicMetadata(topic.name()).map(one -> one.id()).orElse(Uuid.ZERO_UUID)));
                write(shard.commitOffset(context, commit), response -> {
                    response.topics().forEach(topic -> topic.setTopicId(Uuid.ZERO_UUID));
                    give(token, OffsetCommitResponseDataJsonConverter.write(response, (short) 9));
                });
            }
            case "commit-in-transaction" -> write(
                request.get("producer").asLong(),
                shard.commitTransactionalOffset(context, TxnOffsetCommitRequestDataJsonConverter.read(data, (short) 5)),
                response -> give(token, TxnOffsetCommitResponseDataJsonConverter.write(response, (short) 5)));
            case "end-transaction" -> {
                long producerId = request.get("producer").asLong();
                TransactionResult result =
                    request.get("commits").asBoolean() ? TransactionResult.COMMIT : TransactionResult.ABORT;
                Consumer<GroupCoordinatorShard> marker =
                    replica -> replica.replayEndTransactionMarker(producerId, (short) 0, result);
                marker.accept(shard);
                log.add(marker);
                appended(1, () -> { });
            }
            case "fetch" -> fetch(data, token, request.get("stable").asBoolean());
            case "delete-offsets" -> write(
                shard.deleteOffsets(context, OffsetDeleteRequestDataJsonConverter.read(data, (short) 0)),
                response -> give(token, OffsetDeleteResponseDataJsonConverter.write(response, (short) 0)));
            case "delete-groups" -> {
                List<String> groups = new ArrayList<>();
                data.forEach(group -> groups.add(group.asText()));
                write(shard.deleteGroups(context, groups), response -> give(token,
                    DeleteGroupsResponseDataJsonConverter.write(
                        new DeleteGroupsResponseData().setResults(response), (short) 2)));
            }
            case "describe" -> {
                List<String> groups = new ArrayList<>();
                data.forEach(group -> groups.add(group.asText()));
                give(token, DescribeGroupsResponseDataJsonConverter.write(new DescribeGroupsResponseData()
                    .setGroups(shard.describeGroups(context, groups, committed)), (short) 6));
            }
            case "describe-consumers" -> {
                List<String> groups = new ArrayList<>();
                data.forEach(group -> groups.add(group.asText()));
                give(token, ConsumerGroupDescribeResponseDataJsonConverter.write(new ConsumerGroupDescribeResponseData()
                    .setGroups(shard.consumerGroupDescribe(groups, committed)), (short) 1));
            }
            case "topics" -> {
                Cluster before = cluster;
                cluster = Cluster.read(data);
                shard.onMetadataUpdate(cluster.since(before), cluster);
            }
            case "configs" -> {
                Properties configs = new Properties();
                data.get("configs").fields().forEachRemaining(
                    one -> configs.setProperty(one.getKey(), one.getValue().asText()));
                groupConfigs.updateGroupConfig(data.get("group").asText(), configs);
            }
            case "list" -> {
                List<String> states = new ArrayList<>();
                data.get("states").forEach(state -> states.add(state.asText()));
                List<String> types = new ArrayList<>();
                data.get("types").forEach(type -> types.add(type.asText()));
                give(token, ListGroupsResponseDataJsonConverter.write(new ListGroupsResponseData()
                    .setGroups(shard.listGroups(states, types, committed)), (short) 5));
            }
            case "expire-offsets" -> write(shard.cleanupGroupMetadata(), null);
            case "time" -> {
                work.run();
                timer.fire();
            }
            case "commit" -> {
                while (!uncommitted.isEmpty()) {
                    uncommitted.poll().run();
                }
            }
            case "failover" -> load();
            default -> throw new IllegalArgumentException(request.toString());
        }
    }

    private void fetch(JsonNode data, int token, boolean stable) {
        OffsetFetchRequestData.OffsetFetchRequestGroup group =
            OffsetFetchRequestDataJsonConverter.read(data, (short) 9).groups().get(0);
        long at = stable ? Long.MAX_VALUE : committed;
        OffsetFetchResponseData.OffsetFetchResponseGroup fetched =
            shard.fetchOffsets(group, at);
        JsonNode response = OffsetFetchResponseDataJsonConverter.write(
            new OffsetFetchResponseData().setGroups(List.of(fetched)), (short) 9);
        if (stable) {
            appended(0, () -> give(token, response));
        } else {
            give(token, response);
        }
    }

    private void give(int token, JsonNode response) {
        answer.withArray("answers").addArray().add(token).add(response);
    }

    private <T> void write(CoordinatorResult<T, CoordinatorRecord> result, Consumer<T> respond) {
        write(-1, result, respond);
    }

    private <T> void write(
        long producerId, CoordinatorResult<T, CoordinatorRecord> result, Consumer<T> respond) {
        long offset = written;
        for (CoordinatorRecord record : result.records()) {
            byte[] value = serde.serializeValue(record);
            answer.withArray("records").addArray()
                .add(HexFormat.of().formatHex(serde.serializeKey(record)))
                .add(value == null ? null : HexFormat.of().formatHex(value));
            long place = offset++;
            Consumer<GroupCoordinatorShard> entry = replica -> replica.replay(place, producerId, (short) 0, record);
            if (result.replayRecords()) {
                entry.accept(shard);
            }
            log.add(entry);
        }
        appended(result.records().size(), () -> {
            if (respond != null) {
                respond.accept(result.response());
            }
            if (result.appendFuture() != null) {
                result.appendFuture().complete(null);
            }
        });
    }

    private void appended(int count, Runnable whenCommitted) {
        written += count;
        long end = written;
        snapshots.idempotentCreateSnapshot(end);
        Runnable commit = () -> {
            committed = end;
            snapshots.deleteSnapshotsUpTo(end);
            whenCommitted.run();
        };
        if (count == 0 && uncommitted.isEmpty()) {
            commit.run();
        } else {
            uncommitted.add(commit);
        }
    }

    private class VirtualTimer implements CoordinatorTimer<CoordinatorRecord> {
        private record Due(long at, long order, String key, TimeoutOperation<CoordinatorRecord> operation) { }

        private final Map<String, Due> waiting = new HashMap<>();
        private long order = 0;

        @Override
        public void schedule(
            String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) {
            // What the coordinator cleans up by itself is asked for by the caller.
            if (!key.equals("expire-group-metadata") && !key.equals("classic-group-size-counter")) {
                waiting.put(key, new Due(time.milliseconds + unit.toMillis(delay), order++, key, operation));
            }
        }

        @Override
        public void schedule(
            String key, long delay, TimeUnit unit, boolean retry, long backoff,
            TimeoutOperation<CoordinatorRecord> operation) {
            schedule(key, delay, unit, retry, operation);
        }

        @Override
        public void scheduleIfAbsent(
            String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation) {
            if (!waiting.containsKey(key)) {
                schedule(key, delay, unit, retry, operation);
            }
        }

        @Override
        public void cancel(String key) {
            waiting.remove(key);
        }

        @Override
        public boolean isScheduled(String key) {
            return waiting.containsKey(key);
        }

        private void fire() {
            while (true) {
                Optional<Due> next = waiting.values().stream().filter(due -> due.at <= time.milliseconds)
                    .min(Comparator.comparingLong(Due::at).thenComparingLong(Due::order));
                if (next.isEmpty()) {
                    return;
                }
                waiting.remove(next.get().key);
                write(next.get().operation.generateRecords(), null);
            }
        }
    }

    private record Context(short version, String clientId) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public KafkaPrincipal principal() {
            return KafkaPrincipal.ANONYMOUS;
        }

        @Override
        public InetAddress clientAddress() {
            return InetAddress.getLoopbackAddress();
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return version;
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    // What Kafka has done by other threads is done here when time passes, before anything else.
    private class BackgroundWork implements CoordinatorExecutor<CoordinatorRecord> {
        private final Map<String, Runnable> waiting = new LinkedHashMap<>();

        @Override
        public <R> boolean schedule(
            String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> operation) {
            return waiting.putIfAbsent(key, () -> {
                try {
                    write(operation.onComplete(task.run(), null), null);
                } catch (Throwable error) {
                    throw new IllegalStateException(error);
                }
            }) == null;
        }

        @Override
        public boolean isScheduled(String key) {
            return waiting.containsKey(key);
        }

        @Override
        public void cancel(String key) {
            waiting.remove(key);
        }

        private void run() {
            List<Runnable> tasks = new ArrayList<>(waiting.values());
            waiting.clear();
            tasks.forEach(Runnable::run);
        }
    }

    private record Topic(String name, Uuid id, int partitionCount, List<List<String>> racks)
        implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public List<String> partitionRacks(int partition) {
            return new ArrayList<>(racks.get(partition));
        }
    }

    private record Cluster(long version, List<Topic> topics) implements CoordinatorMetadataImage {
        private static Cluster read(JsonNode data) {
            List<Topic> topics = new ArrayList<>();
            data.get("topics").forEach(topic -> {
                List<List<String>> racks = new ArrayList<>();
                topic.get("racks").forEach(partition -> {
                    List<String> names = new ArrayList<>();
                    partition.forEach(rack -> names.add(rack.asText()));
                    racks.add(names);
                });
                topics.add(new Topic(
                    topic.get("name").asText(), Uuid.fromString(topic.get("id").asText()), racks.size(), racks));
            });
            return new Cluster(data.get("version").asLong(), topics);
        }

        private CoordinatorMetadataDelta since(Cluster before) {
            Set<Uuid> deleted = new HashSet<>(before.topicIds());
            deleted.removeAll(topicIds());
            Set<Uuid> created = new HashSet<>(topicIds());
            created.removeAll(before.topicIds());
            List<Uuid> changed = topics.stream().filter(one -> !before.topics.contains(one)).map(Topic::id).toList();
            return new Changes(created, changed, deleted, before);
        }

        @Override
        public Set<Uuid> topicIds() {
            return new HashSet<>(topics.stream().map(Topic::id).toList());
        }

        @Override
        public Set<String> topicNames() {
            return new HashSet<>(topics.stream().map(Topic::name).toList());
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return topics.stream().filter(one -> one.name.equals(name)).map(one -> (TopicMetadata) one).findFirst();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return topics.stream().filter(one -> one.id.equals(id)).map(one -> (TopicMetadata) one).findFirst();
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            return new Changes(Set.of(), List.of(), Set.of(), this);
        }

        @Override
        public boolean isEmpty() {
            return topics.isEmpty();
        }
    }

    private record Changes(
        Collection<Uuid> createdTopicIds, Collection<Uuid> changedTopicIds, Set<Uuid> deletedTopicIds,
        CoordinatorMetadataImage image) implements CoordinatorMetadataDelta { }

    private static class VirtualTime implements Time {
        private long milliseconds;

        @Override
        public long milliseconds() {
            return milliseconds;
        }

        @Override
        public long nanoseconds() {
            return milliseconds * 1_000_000;
        }

        @Override
        public long hiResClockMs() {
            return milliseconds;
        }

        @Override
        public void sleep(long ms) { }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }

        @Override
        public Timer timer(long timeout) {
            throw new UnsupportedOperationException();
        }
    }
}
