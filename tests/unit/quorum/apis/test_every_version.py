"""Each API of the active controller, in each version that kio knows, responds with a message of that version."""

from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from uuid import UUID

import pytest
from kio.schema.assign_replicas_to_dirs.v0.request import DirectoryData, PartitionData, TopicData
from kio.schema.index import api_key_map

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import Principal
from odradek.config.alteration import Operation
from odradek.config.node_config import NodeConfig
from odradek.core.controller.commands import DeadProcess, NewToken
from odradek.core.metadata.image import RESOURCE_TOPIC
from odradek.wire.apis import CONTROLLER_APIS, ApiKey, load_handler
from odradek.wire.schemas import Message, Schema, schema
from tests.unit.core.controller.cluster import CLUSTER_ID, Cluster
from tests.unit.quorum.fake_controller_node import PROPERTIES, FakeControllerNode, context_of

ID = UUID(int=4711)
ALICE = Principal("User", "alice")
OWNERLESS = {"owner_principal_type": None, "owner_principal_name": None}
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
SECOND = timedelta(seconds=1)


COMMAND_APIS = [key for key, api in CONTROLLER_APIS.items() if hasattr(load_handler(api), "execute")]


def versions() -> Iterator[Any]:
    for api_key in COMMAND_APIS:
        for version in range(20):
            if find_spec(f"kio.schema.{api_key_map[api_key]}.v{version}") is not None:
                yield pytest.param(api_key, version, id=f"{ApiKey(api_key).name.lower()}-v{version}")


def execute(request: Message, messages: Schema, cluster: Cluster) -> Any:
    """Through the API's handler, as a controller listener or a broker in the same process does."""

    node = FakeControllerNode()
    node.config = NodeConfig.load(PROPERTIES + AUTHORIZER, "server.properties")
    node.clock.now = cluster.now
    node.dead_process = DeadProcess(cluster.image.brokers[1].epoch, cluster.now)
    node.controller.run = lambda command: cluster.take(command(cluster.controller))
    context = context_of(messages.api_key, messages.version)
    return node.handle(request, context._replace(principal=ALICE, security_protocol="SASL_SSL"))


def error_response(request: Message, messages: Schema, error: KafkaError) -> Any:
    return load_handler(CONTROLLER_APIS[messages.api_key]).build_error_response(request, messages, error)


def request_of(messages: Schema, cluster: Cluster) -> Any:
    new = messages.new
    epoch = cluster.image.brokers[1].epoch
    match ApiKey(messages.api_key).name.lower():
        case "create_topics":
            config = new("CreatableTopicConfig", name="retention.ms", value="5")
            topic = new(
                "CreatableTopic",
                name="new",
                num_partitions=2,
                replication_factor=1,
                assignments=(),
                configs=(config,),
            )
            return new("CreateTopicsRequest", topics=(topic,), validate_only=False)
        case "delete_topics":
            if messages.version < 6:
                return new("DeleteTopicsRequest", topic_names=("orders", "nowhere"), timeout=SECOND)
            names = [("orders", None), (None, ID)]
            topics = tuple(new("DeleteTopicState", name=name, topic_id=topic_id) for name, topic_id in names)
            return new("DeleteTopicsRequest", topics=topics, timeout=SECOND)
        case "create_partitions":
            topic = new("CreatePartitionsTopic", name="orders", count=3, assignments=None)
            return new("CreatePartitionsRequest", topics=(topic,), timeout=SECOND, validate_only=False)
        case "alter_configs" | "incremental_alter_configs" as name:
            config = new("AlterableConfig", name="segment.ms", value="60000", config_operation=Operation.SET)
            resource = new(
                "AlterConfigsResource", resource_type=RESOURCE_TOPIC, resource_name="orders", configs=(config,)
            )
            prefix = "Incremental" if name.startswith("incremental") else ""
            return new(f"{prefix}AlterConfigsRequest", resources=(resource,), validate_only=False)
        case "update_features":
            update = new(
                "FeatureUpdateKey",
                feature="group.version",
                max_version_level=1,
                upgrade_type=1,
                allow_downgrade=False,
            )
            return new("UpdateFeaturesRequest", feature_updates=(update,), validate_only=False)
        case "broker_registration":
            registration = cluster.registration(1, incarnation=2)
            return new(
                "BrokerRegistrationRequest",
                broker_id=1,
                cluster_id=CLUSTER_ID,
                incarnation_id=ID,
                listeners=(new("Listener", name="PLAINTEXT", host="h", port=1, security_protocol=0),),
                features=tuple(
                    new("Feature", name=name, min_supported_version=low, max_supported_version=high)
                    for name, low, high in (
                        (one.name, one.min_supported_version, one.max_supported_version)
                        for one in registration.features
                    )
                ),
                rack=None,
                log_dirs=registration.directories,
                is_migrating_zk_broker=False,
                previous_broker_epoch=-1,
            )
        case "broker_heartbeat":
            return new(
                "BrokerHeartbeatRequest",
                broker_id=1,
                broker_epoch=epoch,
                current_metadata_offset=cluster.image.offset,
                want_fence=False,
                want_shut_down=False,
                offline_log_dirs=(),
                cordoned_log_dirs=(),
            )
        case "controller_registration":
            return new(
                "ControllerRegistrationRequest",
                controller_id=7,
                incarnation_id=ID,
                zk_migration_ready=False,
                listeners=(new("Listener", name="CONTROLLER", host="h", port=1, security_protocol=0),),
                features=(new("Feature", name="kraft.version", min_supported_version=0, max_supported_version=1),),
            )
        case "alter_partition":
            return alter_partition(messages, cluster, cluster.image.topics_by_name["orders"].id)
        case "elect_leaders":
            topics = (new("TopicPartitions", topic="orders", partitions=(0,)),)
            return new("ElectLeadersRequest", election_type=0, topic_partitions=topics, timeout=SECOND)
        case "alter_partition_reassignments":
            partitions = tuple(
                new("ReassignablePartition", partition_index=index, replicas=replicas)
                for index, replicas in ((0, (1,)), (0, None), (7, (1,)))
            )
            topics = (new("ReassignableTopic", name="orders", partitions=partitions),)
            return new(
                "AlterPartitionReassignmentsRequest",
                timeout=SECOND,
                allow_replication_factor_change=False,
                topics=topics,
            )
        case "list_partition_reassignments":
            topics = (new("ListPartitionReassignmentsTopics", name="orders", partition_indexes=(0, 7)),)
            return new("ListPartitionReassignmentsRequest", timeout=SECOND, topics=topics)
        case "create_acls":
            creation = new(
                "AclCreation",
                resource_type=2,
                resource_name="orders",
                resource_pattern_type=3,
                principal="User:alice",
                host="*",
                operation=3,
                permission_type=3,
            )
            return new("CreateAclsRequest", creations=(creation,))
        case "delete_acls":
            everything = new(
                "DeleteAclsFilter",
                resource_type_filter=1,
                resource_name_filter=None,
                pattern_type_filter=1,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
            return new("DeleteAclsRequest", filters=(everything,))
        case "alter_client_quotas":
            part = messages.new_in_request("EntityData", entity_type="user", entity_name="alice")
            change = new("OpData", key="producer_byte_rate", value=1000.0, remove=False)
            entry = messages.new_in_request("EntryData", entity=(part,), ops=(change,))
            return new("AlterClientQuotasRequest", entries=(entry,), validate_only=False)
        case "unregister_broker":
            return new("UnregisterBrokerRequest", broker_id=1)
        case "create_delegation_token":
            return new("CreateDelegationTokenRequest", renewers=(), max_lifetime=-1, **OWNERLESS)
        case "renew_delegation_token":
            return new("RenewDelegationTokenRequest", hmac=token_of(cluster), renew_period=-1)
        case "expire_delegation_token":
            return new("ExpireDelegationTokenRequest", hmac=token_of(cluster), expiry_time_period=-1)
        case "alter_user_scram_credentials":
            values = {"iterations": 4096, "salt": b"salt", "salted_password": b"salted"}
            upsertion = new("ScramCredentialUpsertion", name="alice", mechanism=1, **values)
            return new("AlterUserScramCredentialsRequest", deletions=(), upsertions=(upsertion,))
        case "allocate_producer_ids":
            return new("AllocateProducerIdsRequest", broker_id=1, broker_epoch=epoch)
        case "assign_replicas_to_dirs":
            return new("AssignReplicasToDirsRequest", broker_id=1, broker_epoch=epoch, directories=())
    raise AssertionError("no request for this API")


def token_of(cluster: Cluster) -> bytes:
    """The HMAC of a new delegation token."""
    token = NewToken(ALICE, ALICE, (), -1)
    return cluster.take(cluster.controller.create_delegation_token(token, int(cluster.now * 1000))).hmac


def alter_partition(messages: Schema, cluster: Cluster, *topic_ids: UUID | None) -> Any:
    """Both sides of this API call their parts alike: `new` would give those of the response."""
    sides = import_module(f"kio.schema.alter_partition.v{messages.version}.request")
    epoch = cluster.image.brokers[1].epoch
    values: dict[str, Any] = {"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0}
    if messages.version < 3:
        partition = sides.PartitionData(**values, new_isr=(1,))
    else:
        isr = (sides.BrokerState(broker_id=1, broker_epoch=epoch),)
        partition = sides.PartitionData(**values, new_isr_with_epochs=isr)
    topics = tuple(sides.TopicData(topic_id=topic_id, partitions=(partition,)) for topic_id in topic_ids)
    return messages.new("AlterPartitionRequest", broker_id=1, broker_epoch=epoch, topics=topics)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(delegation_token_secret_key="secret")
    cluster.create("orders", 1, 1)
    return cluster


@pytest.mark.parametrize(("api_key", "version"), [*versions()])
def test_every_version_responds(api_key: int, version: int, cluster: Cluster) -> None:
    messages = schema(api_key, version)
    if api_key == ApiKey.BROKER_REGISTRATION and version < 2:
        # Requests that know no directories belong to clusters that know none, where sessions have to end.
        cluster = Cluster(metadata_version=16)
        cluster.now += 10
    request = request_of(messages, cluster)
    response = execute(request, messages, cluster)
    data = messages.write(response)
    assert messages.read_response(data, 0)[1] == len(data)
    assert getattr(response, "error_code", ErrorCode.none) is ErrorCode.none


@pytest.mark.parametrize(("api_key", "version"), [*versions()])
def test_every_version_has_an_error_response(api_key: int, version: int, cluster: Cluster) -> None:
    messages = schema(api_key, version)
    request = request_of(messages, cluster)
    response = error_response(request, messages, KafkaError(ErrorCode.not_controller, "why"))
    data = messages.write(response)
    found, size = messages.read_response(data, 0)
    assert size == len(data)
    assert "not_controller" in repr(found)


def test_topic_deletion_can_be_disabled() -> None:
    cluster = Cluster(delete_topic_enable="false")
    for version, code in ((2, ErrorCode.invalid_request), (3, ErrorCode.topic_deletion_disabled)):
        messages = schema(ApiKey.DELETE_TOPICS, version)
        request = messages.new("DeleteTopicsRequest", topic_names=("orders",), timeout=SECOND)
        (topic,) = execute(request, messages, cluster).responses
        assert topic.error_code is code


def test_directory_assignment_results_match_the_request(cluster: Cluster) -> None:
    messages = schema(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0)
    orders = cluster.image.topics_by_name["orders"].id
    (directory,) = cluster.image.brokers[1].directories

    def topic(topic_id: UUID, *partitions: int) -> Any:
        return TopicData(
            topic_id=topic_id,
            partitions=tuple(PartitionData(partition_index=index) for index in partitions),  # type: ignore[arg-type]
        )

    request = messages.new(
        "AssignReplicasToDirsRequest",
        broker_id=1,
        broker_epoch=cluster.image.brokers[1].epoch,
        directories=(DirectoryData(id_=directory, topics=(topic(orders, 0, 9), topic(ID, 0))),),
    )
    response = execute(request, messages, cluster)
    codes = [[one.error_code for one in found.partitions] for found in response.directories[0].topics]
    assert codes == [[ErrorCode.none, ErrorCode.unknown_topic_or_partition], [ErrorCode.unknown_topic_id]]


@pytest.mark.parametrize("version", [2, 3])
def test_isr_change_results_match_the_request(cluster: Cluster, version: int) -> None:
    messages = schema(ApiKey.ALTER_PARTITION, version)
    orders = cluster.image.topics_by_name["orders"].id
    request = alter_partition(messages, cluster, orders, ID, None)
    response = execute(request, messages, cluster)
    assert [topic.topic_id for topic in response.topics] == [orders, ID, None]
    done, unknown, unnamed = (topic.partitions[0] for topic in response.topics)
    assert (done.error_code, done.leader_id, done.isr) == (ErrorCode.none, 1, (1,))
    assert unknown.error_code is unnamed.error_code is ErrorCode.unknown_topic_id


@pytest.mark.parametrize("version", [1, 2])
def test_unknown_election_types_are_rejected(cluster: Cluster, version: int) -> None:
    messages = schema(ApiKey.ELECT_LEADERS, version)
    for number in (-1, 2, 127):
        topics = (messages.new("TopicPartitions", topic="orders", partitions=(0,)),)
        request = messages.new("ElectLeadersRequest", election_type=number, topic_partitions=topics, timeout=SECOND)
        response = execute(request, messages, cluster)
        (partition,) = response.replica_election_results[0].partition_result
        assert response.error_code is partition.error_code is ErrorCode.invalid_request
        assert partition.error_message == f"Unknown election type {number}"


def test_election_without_a_list_means_all_partitions(cluster: Cluster) -> None:
    messages = schema(ApiKey.ELECT_LEADERS, 2)
    everything = messages.new("ElectLeadersRequest", election_type=0, topic_partitions=None, timeout=SECOND)
    response = execute(everything, messages, cluster)
    assert [(one.topic, one.partition_result) for one in response.replica_election_results] == [("orders", ())]
    refused = error_response(everything, messages, KafkaError(ErrorCode.not_controller))
    assert (refused.error_code, refused.replica_election_results) == (ErrorCode.not_controller, ())


@pytest.fixture
def large_cluster() -> Cluster:
    cluster = Cluster(brokers=3)
    cluster.create("orders", assignments={0: (1, 2), 1: (2, 1)})
    return cluster


@pytest.mark.parametrize("version", [0, 1])
def test_reassignment_results_match_the_request_and_are_listed(large_cluster: Cluster, version: int) -> None:
    cluster, messages = large_cluster, schema(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version)
    new = messages.new

    def topic(name: str, *moves: tuple[int, tuple[int, ...] | None]) -> Any:
        partitions = (new("ReassignablePartition", partition_index=index, replicas=to) for index, to in moves)
        return new("ReassignableTopic", name=name, partitions=tuple(partitions))

    topics = (topic("nowhere", (0, (1,))), topic("orders", (1, (3, 1)), (0, (1, 2, 3)), (0, None), (9, None)))
    request = new(
        "AlterPartitionReassignmentsRequest", timeout=SECOND, allow_replication_factor_change=False, topics=topics
    )
    response = execute(request, messages, cluster)
    found = [[part.error_code for part in one.partitions] for one in response.responses]
    done, unknown = ErrorCode.none, ErrorCode.unknown_topic_or_partition
    refused = [done, ErrorCode.invalid_replication_factor, ErrorCode.no_reassignment_in_progress, unknown]
    # Version 0 cannot say that the number of replicas must stay.
    assert found == [[unknown], [done, done, done, unknown] if version == 0 else refused]

    listing = schema(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    everything = listing.new("ListPartitionReassignmentsRequest", timeout=SECOND, topics=None)
    listed = execute(everything, listing, cluster)
    (ongoing,) = listed.topics
    (partition,) = ongoing.partitions
    assert (ongoing.name, partition.partition_index, partition.replicas) == ("orders", 1, (3, 1, 2))
    assert (partition.adding_replicas, partition.removing_replicas) == ((3,), (2,))


def test_error_response_of_a_list_names_the_requested_partitions(large_cluster: Cluster) -> None:
    messages = schema(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    error = KafkaError(ErrorCode.not_controller, "why")
    everything = messages.new("ListPartitionReassignmentsRequest", timeout=SECOND, topics=None)
    assert error_response(everything, messages, error).topics == ()
    refused = error_response(request_of(messages, large_cluster), messages, error)
    assert [(one.name, [part.partition_index for part in one.partitions]) for one in refused.topics] == [
        ("orders", [0, 7])
    ]
    assert (refused.error_code, refused.error_message) == (ErrorCode.not_controller, "why")
