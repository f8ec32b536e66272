"""Which of Kafka's configs this node honours, each with a sentence on what it does here.

This is the one file to touch when a config starts to work. A config that is taken and then ignored misleads whoever
wrote it, so every name of `kafka_configs.json` is one of these:

- honoured (`BROKER`, `TOPIC`): it does what it does in Kafka. DescribeConfigs gives the sentence as documentation.
  `FIXED_AT_START` has those that Kafka can change at run time and this node cannot.
- reserved (`RESERVED`): it tunes a part of Kafka that is not served yet, so nobody can see it ignored. Taken silently.
- anything else: a warning by name when somebody sets it (`WITHOUT_EFFECT` may say why), and AlterConfigs refuses it.
- refused (`REFUSED`): ignoring it would be dangerous, so the node does not start.
"""

from collections.abc import Mapping
from types import MappingProxyType

_BROKER = {
    # Who this node is and where it is reached
    "advertised.listeners": "Addresses that clients are told to connect to; the listeners themselves when not given.",
    "broker.id": "Older name of node.id.",
    "broker.rack": "Rack of this broker: replicas of a partition are spread over racks; consumers may read in theirs.",
    "controller.listener.names": "Names of the listeners on which controllers are reached.",
    "controller.quorum.bootstrap.servers": "Controllers through which the others are found.",
    "controller.quorum.voters": "The fixed set of controllers, as id@host:port.",
    "hot.keys.enable": "Whether a broker that serves metrics looks now and then which keys its traffic is made of.",
    "http.address": "Where the node serves metrics and health over HTTP: HOST:PORT, or a PORT of the loopback "
    "interface; nowhere when empty.",
    "inter.broker.listener.name": "Listener that brokers use among themselves.",
    "listener.security.protocol.map": "Security protocol of each listener name.",
    "listeners": "Addresses on which the node listens, as NAME://host:port.",
    "node.id": "Number of this node, unique in the cluster.",
    "process.roles": "What the node is: broker, controller, or both.",
    "segment.lease.credentials.file": "Who may read closed segments from the files, asking at http.address for leases: "
    "lines with a principal, its secret and its topics. Nobody when empty.",
    "security.inter.broker.protocol": "Security protocol among brokers, where no listener is named for it.",
    # Membership: brokers and controllers of one cluster
    "broker.disconnect.grace.ms": "How long a broker whose connection broke must refuse every new one to be taken for "
    "dead before its session ends; 0 leaves it to the session, as Apache Kafka does.",
    "broker.heartbeat.interval.ms": "How often a broker tells the controller that it lives.",
    "broker.session.timeout.ms": "A broker that is silent for this long is fenced.",
    "controlled.shutdown.enable": "Whether a broker that stops gives up its leaderships first.",
    "controller.quorum.auto.join.enable": "Whether a controller asks to become a voter by itself.",
    "controller.quorum.election.backoff.max.ms": "Longest pause after an election that nobody won.",
    "controller.quorum.election.timeout.ms": "How long an election may take, at least.",
    "controller.quorum.fetch.max.bytes": "Bytes of the metadata log in one answer of the quorum's leader.",
    "controller.quorum.fetch.snapshot.max.bytes": "Bytes of a metadata snapshot in one answer of the quorum's leader.",
    "controller.quorum.fetch.timeout.ms": "A leader of the quorum that is silent for this long is replaced.",
    "controller.quorum.request.timeout.ms": "How long controllers wait for each other's answers.",
    "controller.quorum.retry.backoff.ms": "Pause before a controller is asked again.",
    "controller.socket.timeout.ms": "How long the active controller's answer is waited for on one connection.",
    "initial.broker.registration.timeout.ms": "A broker that cannot register for this long gives up.",
    "metadata.max.idle.interval.ms": "How often the active controller writes a record that says nothing; 0 never.",
    "socket.connection.setup.timeout.ms": "How long a connection to the active controller may take to be made.",
    # Connections and requests
    "connections.max.idle.ms": "A connection that is silent for this long is closed.",
    "fetch.max.bytes": "Upper limit of one fetch response, whatever the client asks for.",
    "max.connections": "Connections the node accepts at a time.",
    "max.connections.per.ip": "Connections accepted from one address at a time.",
    "max.connections.per.ip.overrides": "Other limits for single addresses, as address:limit.",
    "max.incremental.fetch.session.cache.slots": "Fetch sessions kept at a time.",
    "max.request.partition.size.limit": "Partitions that one DescribeTopicPartitions response carries.",
    "socket.listen.backlog.size": "Connections that may wait to be accepted.",
    "socket.receive.buffer.bytes": "Receive buffer of each connection; -1 leaves it to the system.",
    "socket.request.max.bytes": "A larger request closes its connection.",
    "socket.send.buffer.bytes": "Send buffer of each connection; -1 leaves it to the system.",
    # Topics
    "auto.create.topics.enable": "Whether a topic that clients ask for is created on the spot.",
    "default.replication.factor": "Replicas of a topic that is created without saying how many.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "num.partitions": "Partitions of a topic that is created without saying how many.",
    # Who leads
    "auto.leader.rebalance.enable": "Whether leadership is given back to the first replica of each partition.",
    "leader.imbalance.check.interval.seconds": "How often leadership is given back.",
    "unclean.leader.election.enable": "Whether a replica that lacks records may lead when no other can.",
    "unclean.leader.election.interval.ms": "How often partitions without a leader are looked at for such a replica.",
    # Where data is kept
    "log.dir": "Data directories, where log.dirs is not given.",
    "log.dirs": "Data directories, separated by commas. New partitions go where the fewest are.",
    "log.dir.failure.timeout.ms": "A broker that cannot tell the controller of a failed directory for this long stops.",
    "metadata.log.dir": "Directory of the metadata log; the first of log.dirs when not given.",
    "num.recovery.threads.per.data.dir": "Partitions of one directory that are opened at the same time at start.",
    # Defaults of topic configs
    "compression.gzip.level": "Level for compression.type=gzip; -1 is the codec's own default.",
    "compression.lz4.level": "Level for compression.type=lz4.",
    "compression.type": "Codec in which batches are kept; producer keeps what arrives.",
    "compression.zstd.level": "Level for compression.type=zstd.",
    "log.cleaner.delete.retention.ms": "How long tombstones are kept for readers that started at the beginning.",
    "log.cleaner.max.compaction.lag.ms": "A record is compacted after this time at the latest.",
    "log.cleaner.min.cleanable.ratio": "Share of not yet compacted bytes from which a log is compacted.",
    "log.cleaner.min.compaction.lag.ms": "A record stays uncompacted for at least this long.",
    "log.cleanup.policy": "What happens to old segments: delete, compact, both, or nothing when empty.",
    "log.flush.interval.messages": "Records after which a partition is synced to disk.",
    "log.flush.interval.ms": "Time after which a partition is synced to disk.",
    "log.index.interval.bytes": "Bytes between two entries of the offset index.",
    "log.index.size.max.bytes": "Largest size of an index file; a full one rolls its segment.",
    "log.message.timestamp.after.max.ms": "How far a record's timestamp may be ahead of the broker's clock.",
    "log.message.timestamp.before.max.ms": "How far a record's timestamp may be behind the broker's clock.",
    "log.message.timestamp.type": "Whether records keep the producer's time or get the time of appending.",
    "log.preallocate": "Kept and shown without effect: a segment takes disk space as it grows.",
    "log.retention.bytes": "Bytes that a partition keeps; -1 is no limit.",
    "log.retention.hours": "Hours that records are kept, where no finer unit is given.",
    "log.retention.minutes": "Minutes that records are kept, where log.retention.ms is not given.",
    "log.retention.ms": "Milliseconds that records are kept; -1 is for ever.",
    "log.roll.hours": "Hours after which a segment is rolled, where log.roll.ms is not given.",
    "log.roll.jitter.hours": "Hours by which rolling is spread, where log.roll.jitter.ms is not given.",
    "log.roll.jitter.ms": "Milliseconds by which the rolling of segments is spread at random.",
    "log.roll.ms": "Milliseconds after which a segment is rolled, full or not.",
    "log.segment.bytes": "Largest size of a segment.",
    "log.segment.delete.delay.ms": "Time between the removal of a segment from the log and from disk.",
    "message.max.bytes": "Largest record batch that is accepted, as compressed.",
    "min.insync.replicas": "In-sync replicas below which writes with acks=all are refused.",
    # Housekeeping
    "background.threads": "Worker threads for what blocks: syncs, cold reads, deletions.",
    "log.cleaner.backoff.ms": "Pause of the cleaner when there is nothing to compact.",
    "log.cleaner.dedupe.buffer.size": "Memory for the keys of the logs being compacted, over all cleaner threads.",
    "log.cleaner.enable": "Whether compacted topics are compacted at all.",
    "log.cleaner.io.buffer.load.factor": "How full the key table may get; more keys per pass, more collisions.",
    "log.cleaner.threads": "Logs that are compacted at the same time.",
    "log.cleaner.io.max.bytes.per.second": "Rate limit of the cleaner's reads and writes.",
    "log.flush.offset.checkpoint.interval.ms": "How often recovery points are written down.",
    "log.flush.scheduler.interval.ms": "How often partitions are looked at for a sync that is due.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often log start offsets are written down.",
    "log.initial.task.delay.ms": "How long after the start housekeeping begins.",
    "log.retention.check.interval.ms": "How often partitions are looked at for segments to delete.",
    "producer.id.expiration.check.interval.ms": "How often expired producers are looked for.",
    "producer.id.expiration.ms": "An idempotent producer that is silent for this long is forgotten.",
    "follower.replication.throttled.rate": "Bytes per second that throttled replicas here fetch from their leaders.",
    "leader.replication.throttled.rate": "Bytes per second that followers of throttled replicas here fetch.",
    "replica.alter.log.dirs.io.max.bytes.per.second": "Bytes per second that move between log dirs of this broker.",
    "replication.quota.window.num": "Windows over which the rates of throttled replicas are measured.",
    "replication.quota.window.size.seconds": "Length of each of these windows.",
    "replica.fetch.backoff.ms": "Longest pause of a follower whose leader does not answer.",
    "replica.fetch.max.bytes": "Bytes of one partition that a follower fetches at once; a larger batch comes whole.",
    "replica.fetch.min.bytes": "Bytes that a leader waits for before it answers a follower.",
    "replica.fetch.response.max.bytes": "Bytes of all partitions that a follower fetches at once.",
    "replica.fetch.wait.max.ms": "How long a leader lets a follower wait for something new.",
    "replica.lag.time.max.ms": "A follower that has not caught up for this long is not in sync.",
    "replica.selector.class": "Where consumers read: at the leader, or (RackAwareReplicaSelector) in their own rack.",
    "replica.high.watermark.checkpoint.interval.ms": "How often high watermarks are written down.",
    # Metadata log
    "metadata.log.max.record.bytes.between.snapshots": "Bytes of metadata records after which a snapshot is taken.",
    "metadata.log.max.snapshot.interval.ms": "Time after which a snapshot is taken when anything changed; 0 never.",
    "metadata.log.segment.bytes": "Largest size of a segment of the metadata log.",
    "metadata.log.segment.ms": "Time after which a segment of the metadata log is rolled.",
    "metadata.max.retention.bytes": "Bytes of metadata log and snapshots that are kept.",
    "metadata.max.retention.ms": "Time that old metadata segments and snapshots are kept.",
    # Groups
    "group.consumer.assignment.interval.ms": "How long an assignment of a consumer group stands at least.",
    "group.consumer.assignors": "How coordinators may assign partitions; the first one, if members want none else.",
    "group.consumer.heartbeat.interval.ms": "How often members of consumer groups are to be heard of.",
    "group.consumer.max.assignment.interval.ms": "Longest assignment interval that a group may have of its own.",
    "group.consumer.max.heartbeat.interval.ms": "Longest heartbeat interval that a group may have of its own.",
    "group.consumer.max.session.timeout.ms": "Longest session timeout that a consumer group may have of its own.",
    "group.consumer.max.size": "Members that a consumer group may have.",
    "group.consumer.migration.policy": "Which of the protocols a group with members may be converted to.",
    "group.consumer.min.assignment.interval.ms": "Shortest assignment interval that a group may have of its own.",
    "group.consumer.min.heartbeat.interval.ms": "Shortest heartbeat interval that a group may have of its own.",
    "group.consumer.min.session.timeout.ms": "Shortest session timeout that a consumer group may have of its own.",
    "group.consumer.regex.refresh.interval.ms": "After how long regular expressions are resolved again in any case.",
    "group.consumer.session.timeout.ms": "After which silence a member of a consumer group is taken for gone.",
    "group.initial.rebalance.delay.ms": "How long the first members of an empty group wait for others.",
    "group.max.session.timeout.ms": "Longest session that a member of a classic group may ask for.",
    "group.max.size": "Members that a classic group may have.",
    "group.min.session.timeout.ms": "Shortest session that a member of a classic group may ask for.",
    "offset.metadata.max.bytes": "Longest text that may be committed with an offset.",
    "offsets.commit.timeout.ms": "How long a coordinator waits for the replicas of what it writes.",
    "offsets.retention.check.interval.ms": "Time between two looks for offsets that have expired.",
    "offsets.retention.minutes": "Time that the offsets of a group are kept after its last member has left.",
    "offsets.topic.compression.codec": "Codec of what group coordinators write, by its number; 0 is none.",
    "offsets.topic.num.partitions": "Partitions of __consumer_offsets, as it is created.",
    "offsets.topic.replication.factor": "Replicas of __consumer_offsets, as it is created.",
    "offsets.topic.segment.bytes": "segment.bytes of __consumer_offsets, as it is created.",
    # Transactions
    "add.partitions.to.txn.retry.backoff.max.ms": "How long leaders wait for the transaction before to end.",
    "add.partitions.to.txn.retry.backoff.ms": "Time between two attempts to add a partition to a transaction.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "Time between two looks for timed out transactions.",
    "transaction.max.timeout.ms": "Longest timeout that a transactional producer may ask for.",
    "transaction.partition.verification.enable": "Whether leaders ask if a transaction has a part in their partition.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "Time between two looks for unused ids.",
    "transaction.state.log.min.isr": "min.insync.replicas of __transaction_state.",
    "transaction.state.log.num.partitions": "Partitions of __transaction_state, as it is created.",
    "transaction.state.log.replication.factor": "Replicas of __transaction_state, as it is created.",
    "transaction.state.log.segment.bytes": "segment.bytes of __transaction_state, as it is created.",
    "transaction.two.phase.commit.enable": "Whether transactions may wait for another coordinator, without a timeout.",
    "transactional.id.expiration.ms": "Time after which a transactional id that nobody uses is forgotten.",
}

_TOPIC = {
    "cleanup.policy": "What happens to old segments: delete, compact, both, or nothing when empty.",
    "compression.gzip.level": "Level for compression.type=gzip; -1 is the codec's own default.",
    "compression.lz4.level": "Level for compression.type=lz4.",
    "compression.type": "Codec in which batches are kept; producer keeps what arrives.",
    "compression.zstd.level": "Level for compression.type=zstd.",
    "delete.retention.ms": "How long tombstones are kept for readers that started at the beginning.",
    "file.delete.delay.ms": "Time between the removal of a segment from the log and from disk.",
    "flush.messages": "Records after which the log is synced; 1 acknowledges only what is on disk.",
    "flush.ms": "Time after which the log is synced.",
    "follower.replication.throttled.replicas": "Replicas that fetch throttled, as partition:broker, or * for all.",
    "index.interval.bytes": "Bytes between two entries of the offset index.",
    "internal.segment.bytes": "Segment size below the public minimum, for tests.",
    "leader.replication.throttled.replicas": "Replicas that lead throttled, as partition:broker, or * for all.",
    "max.compaction.lag.ms": "A record is compacted after this time at the latest.",
    "max.message.bytes": "Largest record batch that is accepted, as compressed.",
    "message.timestamp.after.max.ms": "How far a record's timestamp may be ahead of the broker's clock.",
    "message.timestamp.before.max.ms": "How far a record's timestamp may be behind the broker's clock.",
    "message.timestamp.type": "Whether records keep the producer's time or get the time of appending.",
    "min.cleanable.dirty.ratio": "Share of not yet compacted bytes from which the log is compacted.",
    "min.compaction.lag.ms": "A record stays uncompacted for at least this long.",
    "min.insync.replicas": "In-sync replicas below which writes with acks=all are refused.",
    "preallocate": "Kept and shown without effect: a segment takes disk space as it grows.",
    "retention.bytes": "Bytes that each partition keeps; -1 is no limit.",
    "retention.ms": "Time that records are kept; -1 is for ever.",
    "segment.bytes": "Largest size of a segment.",
    "segment.index.bytes": "Largest size of an index file; a full one rolls its segment.",
    "segment.jitter.ms": "Time by which the rolling of segments is spread at random.",
    "segment.ms": "Time after which a segment is rolled, full or not.",
    "unclean.leader.election.enable": "Whether a replica that lacks records may lead when no other can.",
}

_FIXED_AT_START = {
    "listener.security.protocol.map": "listeners are opened at start; change them in the file and restart the node",
    "listeners": "listeners are opened at start; change them in the file and restart the node",
}

_RESERVED = {
    "share.coordinator.state.topic.replication.factor": "share groups",
    "share.coordinator.state.topic.min.isr": "share groups",
    "local.retention.bytes": "tiered storage",
    "local.retention.ms": "tiered storage",
    "log.local.retention.bytes": "tiered storage",
    "log.local.retention.ms": "tiered storage",
    "remote.log.copy.disable": "tiered storage",
    "remote.log.delete.on.disable": "tiered storage",
    "remote.storage.enable": "tiered storage",
}

_ONE_LOOP = "a node is one process with one event loop; run more nodes to use more cores"
_NO_PLUGINS = "plugins are Java classes, which this node cannot load"
_WITHOUT_EFFECT = {
    "group.coordinator.append.linger.ms": "a coordinator writes at once; what comes together is one batch",
    "group.coordinator.background.threads": _ONE_LOOP,
    "group.coordinator.cached.buffer.max.bytes": "no buffers are kept between writes",
    "group.coordinator.threads": _ONE_LOOP,
    "log.cleaner.io.buffer.size": "the cleaner reads in pieces of a fixed size",
    "offsets.load.buffer.size": "the log is read in pieces of a fixed size",
    "transaction.state.log.load.buffer.size": "the log is read in pieces of a fixed size",
    "controller.quorum.append.linger.ms": "records are written at once, and those that wait for the disk share a sync",
    "num.io.threads": _ONE_LOOP,
    "num.network.threads": _ONE_LOOP,
    "queued.max.requests": _ONE_LOOP,
    "num.replica.alter.log.dirs.threads": _ONE_LOOP,
    "alter.config.policy.class.name": _NO_PLUGINS,
    "client.quota.callback.class": _NO_PLUGINS,
    "create.topic.policy.class.name": _NO_PLUGINS,
    "kafka.metrics.reporters": _NO_PLUGINS,
    "metric.reporters": _NO_PLUGINS,
    "principal.builder.class": _NO_PLUGINS,
}

_REFUSED = {
    "authorizer.class.name": "access control is not served yet, and without it everybody may do everything. "
    "Take the line out to run the node open to all who reach it",
}

BROKER: Mapping[str, str] = MappingProxyType(_BROKER)
TOPIC: Mapping[str, str] = MappingProxyType(_TOPIC)
FIXED_AT_START: Mapping[str, str] = MappingProxyType(_FIXED_AT_START)
RESERVED: Mapping[str, str] = MappingProxyType(_RESERVED)
WITHOUT_EFFECT: Mapping[str, str] = MappingProxyType(_WITHOUT_EFFECT)
REFUSED: Mapping[str, str] = MappingProxyType(_REFUSED)
