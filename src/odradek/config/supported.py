"""The supported configs, each with a sentence that documents it.

This is the one file to change when a config becomes supported. A config that is accepted and then ignored misleads the
operator, so every name of `kafka_configs.json` is one of these:

- supported (`BROKER`, `TOPIC`): it works as in Kafka. DescribeConfigs returns the sentence as documentation.
  `FIXED_AT_START` has those that Kafka can change at run time and this node cannot.
- reserved (`RESERVED`): it configures a part of Kafka that is not implemented yet. Accepted without a warning.
- rejected (`REJECTED`): ignoring it would be dangerous, so the node does not start.
- any other: setting it causes a warning (`WITHOUT_EFFECT` may give the reason), and AlterConfigs rejects it.
"""

from collections.abc import Mapping
from types import MappingProxyType

_BROKER = {
    # Identity and addresses
    "advertised.listeners": "Addresses that clients connect to. Defaults to the listeners.",
    "broker.id": "Synonym of node.id.",
    "config.providers": "Names of config providers, which replace ${provider:path:key} in the values of this file. "
    "config.providers.<name>.class has the class, and config.providers.<name>.param.<param> its parameters.",
    "broker.rack": "Rack of this broker. Replicas are spread over racks, and consumers may fetch from their own.",
    "controller.listener.names": "Names of the controller listeners.",
    "controller.quorum.bootstrap.servers": "Controllers that are used to discover the quorum.",
    "controller.quorum.voters": "The static voter set, as id@host:port.",
    "hot.keys.enable": "Whether a broker that serves metrics samples the hot keys of its partitions.",
    "http.address": "HTTP address of metrics, health and segment leases: HOST:PORT, or a PORT on the loopback "
    "interface. Empty disables it.",
    "http.security.protocol": "PLAINTEXT, or SSL for HTTPS with the ssl.* configs, also with the prefix "
    "listener.name.http.",
    "inter.broker.listener.name": "Listener for connections between brokers.",
    "listener.security.protocol.map": "Security protocol of each listener name.",
    "listeners": "Addresses that the node binds, as NAME://host:port.",
    "node.id": "ID of this node, unique in the cluster.",
    "process.roles": "Roles of the node: broker, controller, or both.",
    "security.inter.broker.protocol": "Security protocol between brokers, without inter.broker.listener.name.",
    # TLS
    "ssl.allow.dn.changes": "Whether a key store that changes at run time may have another distinguished name.",
    "ssl.allow.san.changes": "Whether a key store that changes at run time may lack subject alternative names.",
    "ssl.cipher.suites": "Cipher suites of TLS 1.2, with their IANA names. Those of TLS 1.3 are all enabled.",
    "ssl.client.auth": "Whether clients need a certificate: none, requested or required. On SASL_SSL, it has an effect "
    "only with the prefix of a listener.",
    "ssl.enabled.protocols": "Versions of TLS: TLSv1.2, TLSv1.3.",
    "ssl.endpoint.identification.algorithm": "https: the certificates of other nodes must be for their hosts. "
    "Empty disables that.",
    "ssl.key.password": "Password of the private key.",
    "ssl.keystore.certificate.chain": "Certificate chain as PEM, with ssl.keystore.type=PEM.",
    "ssl.keystore.key": "Private key as PEM, with ssl.keystore.type=PEM.",
    "ssl.keystore.location": "File with this node's key and certificates: PEM, PKCS12 or JKS.",
    "ssl.keystore.password": "Password of the key store.",
    "ssl.keystore.type": "PEM, or one of PKCS12 and JKS, which are recognized by their content.",
    "ssl.principal.mapping.rules": "Rules that derive the names of principals from client certificates.",
    "ssl.protocol": "TLSv1.3, TLSv1.2 or TLS. ssl.enabled.protocols decides.",
    "ssl.truststore.certificates": "Trusted certificates as PEM, with ssl.truststore.type=PEM.",
    "ssl.truststore.location": "File with the trusted certificates: PEM, PKCS12 or JKS. Without any, the system's.",
    "ssl.truststore.password": "Password of the trust store.",
    "ssl.truststore.type": "PEM, or one of PKCS12 and JKS, which are recognized by their content.",
    # Membership of brokers and controllers
    "broker.disconnect.grace.ms": "Time for which a disconnected broker must refuse connections to be fenced before "
    "its session expires. 0 waits for the session, as Apache Kafka does.",
    "broker.heartbeat.interval.ms": "Interval of broker heartbeats to the controller.",
    "broker.session.timeout.ms": "Time without heartbeats after which a broker is fenced.",
    "controlled.shutdown.enable": "Whether a broker hands over its leaderships before it stops.",
    "controller.quorum.auto.join.enable": "Whether a controller adds itself to the voter set.",
    "controller.quorum.election.backoff.max.ms": "Maximum backoff after an election without a winner.",
    "controller.quorum.election.timeout.ms": "Minimum time before an election is repeated.",
    "controller.quorum.fetch.max.bytes": "Maximum bytes of the metadata log in one Fetch response.",
    "controller.quorum.fetch.snapshot.max.bytes": "Maximum bytes of a metadata snapshot in one FetchSnapshot response.",
    "controller.quorum.fetch.timeout.ms": "Time without a successful fetch after which a voter starts an election.",
    "controller.quorum.request.timeout.ms": "Timeout of requests between controllers.",
    "controller.quorum.retry.backoff.ms": "Backoff before a request to a controller is retried.",
    "controller.socket.timeout.ms": "Timeout of requests to the active controller.",
    "initial.broker.registration.timeout.ms": "Time after which a broker that cannot register stops.",
    "metadata.max.idle.interval.ms": "Interval of no-op records in an idle metadata log. 0 disables them.",
    "socket.connection.setup.timeout.ms": "Timeout of connecting to the active controller.",
    # Connections and requests
    "connections.max.idle.ms": "Time after which an idle connection is closed.",
    "fetch.max.bytes": "Maximum bytes of one Fetch response.",
    "max.connection.creation.rate": "Maximum number of new connections per second, also of one listener with a prefix.",
    "max.connections": "Maximum number of connections.",
    "max.connections.per.ip": "Maximum number of connections from one address.",
    "max.connections.per.ip.overrides": "Limits of single addresses, as address:limit.",
    "max.incremental.fetch.session.cache.slots": "Maximum number of fetch sessions.",
    "max.request.partition.size.limit": "Maximum partitions in one DescribeTopicPartitions response.",
    "socket.listen.backlog.size": "Maximum number of connections that wait to be accepted.",
    "socket.receive.buffer.bytes": "Receive buffer of each connection. -1 is the system's default.",
    "socket.request.max.bytes": "Maximum size of a request. A larger one closes the connection.",
    "socket.send.buffer.bytes": "Send buffer of each connection. -1 is the system's default.",
    "record.validation": "Which parts of produced batches are checked: header (length, checksum, counts), or full "
    "(also every record, as Apache Kafka does, at a higher cost).",
    # Delegation tokens
    "delegation.token.expiry.check.interval.ms": "Interval at which the active controller removes expired tokens.",
    "delegation.token.expiry.time.ms": "Time after which a delegation token expires unless it is renewed.",
    "delegation.token.max.lifetime.ms": "Maximum lifetime of a delegation token.",
    "delegation.token.secret.key": "Secret from which delegation tokens are derived, the same on all nodes. Without "
    "it, delegation tokens are disabled.",
    # Audit log
    "audit.log.file": "File of the audit log: failed logins, denied requests and administrative changes. Empty: none.",
    "audit.log.format": "Names of the fields: json (Odradek's own), or ocsf (Open Cybersecurity Schema Framework).",
    "audit.log.max.bytes": "Size from which the file is renamed to FILE.1, and a new one is started.",
    "audit.log.max.files": "Number of files that are kept, with the one that is being written.",
    # Authorization
    "allow.everyone.if.no.acl.found": "Whether every principal may use a resource that no ACL is about.",
    "authorizer.class.name": "Authorizer that checks requests against the ACLs: "
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer. Empty allows everything.",
    "super.users": "Principals that may do everything, as User:name, separated by semicolons.",
    # SASL
    "connection.failed.authentication.delay.ms": "Delay of the response to a failed authentication, and of its "
    "connection's end.",
    "connections.max.reauth.ms": "Time after which a client must authenticate again. 0: never, unless its credential "
    "expires.",
    "sasl.enabled.mechanisms": "SASL mechanisms of a listener.",
    "sasl.jaas.config": "Login module of a listener and mechanism, with its users or this node's own login. It needs "
    "the prefix listener.name.LISTENER.MECHANISM.",
    "sasl.client.callback.handler.class": "Class with which this node presents its credentials: only Kafka's own.",
    "sasl.kerberos.principal.to.local.rules": "Rules from Kerberos principals to the names of principals.",
    "sasl.kerberos.service.name": "Name of the Kerberos service of the brokers, usually kafka.",
    "sasl.login.callback.handler.class": "Class with which this node gets a token: only Kafka's own.",
    "sasl.login.class": "Class with which this node logs in: only Kafka's own.",
    "sasl.mechanism.controller.protocol": "SASL mechanism of connections to controllers.",
    "sasl.mechanism.inter.broker.protocol": "SASL mechanism of connections between brokers.",
    "sasl.oauthbearer.clock.skew.seconds": "Difference of clocks that is allowed between this node and the issuer of a "
    "token.",
    "sasl.oauthbearer.expected.audience": "Audiences of which a token must name one. Empty: a token must name none.",
    "sasl.oauthbearer.expected.issuer": "Issuer that a token must name. Without it, any issuer whose key is known.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "Interval at which the keys that verify tokens are read again.",
    "sasl.oauthbearer.jwks.endpoint.url": "URL of the keys that verify tokens: https, http or file.",
    "sasl.oauthbearer.scope.claim.name": "Claim of a token with its scopes.",
    "sasl.oauthbearer.sub.claim.name": "Claim of a token with the name of its principal.",
    "sasl.oauthbearer.token.endpoint.url": "File URL of the token with which this node authenticates to other nodes.",
    "sasl.oauthbearer.unsecured.tokens.enable": "Whether tokens without a signature are accepted, which every client "
    "can write. Only for tests.",
    "sasl.server.callback.handler.class": "Class that verifies credentials: only Kafka's own.",
    "sasl.server.max.receive.size": "Maximum size of a request before authentication.",
    # Topics
    "auto.create.topics.enable": "Whether a Metadata request for a missing topic creates it.",
    "default.replication.factor": "Default number of replicas of new topics.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "num.partitions": "Default number of partitions of new topics.",
    # Leader election
    "auto.leader.rebalance.enable": "Whether the controller moves leadership back to preferred leaders.",
    "leader.imbalance.check.interval.seconds": "Interval of preferred leader elections.",
    "unclean.leader.election.enable": "Whether a replica outside the ISR may be elected, which can lose records.",
    "unclean.leader.election.interval.ms": "Interval of unclean elections for partitions without a leader.",
    # Storage
    "log.dir": "Log directory, without log.dirs.",
    "log.dirs": "Log directories, separated by commas. A new partition goes to the one with the fewest.",
    "log.dir.failure.timeout.ms": "Time after which a broker that cannot report a failed log dir stops.",
    "metadata.log.dir": "Directory of the metadata log. Defaults to the first of log.dirs.",
    "num.recovery.threads.per.data.dir": "Logs of one directory that are loaded concurrently at start.",
    # Topic defaults
    "compression.gzip.level": "Level for compression.type=gzip. -1 is the codec's default.",
    "compression.lz4.level": "Level for compression.type=lz4.",
    "compression.type": "Codec of stored batches. 'producer' keeps the producer's codec.",
    "compression.zstd.level": "Level for compression.type=zstd.",
    "log.cleaner.delete.retention.ms": "Time that tombstones are kept, for consumers that read from the beginning.",
    "log.cleaner.max.compaction.lag.ms": "Maximum time before a record is compacted.",
    "log.cleaner.min.cleanable.ratio": "Minimum share of dirty bytes before a log is compacted.",
    "log.cleaner.min.compaction.lag.ms": "Minimum time before a record is compacted.",
    "log.cleanup.policy": "Cleanup of old segments: delete, compact, or both. Empty keeps everything.",
    "log.flush.interval.messages": "Number of records after which a log is synced to disk.",
    "log.flush.interval.ms": "Time after which a log is synced to disk.",
    "log.index.interval.bytes": "Bytes between two entries of the offset index.",
    "log.index.size.max.bytes": "Maximum size of an index file. A full index rolls its segment.",
    "log.message.timestamp.after.max.ms": "Maximum time that a timestamp may be ahead of the broker's clock.",
    "log.message.timestamp.before.max.ms": "Maximum time that a timestamp may be behind the broker's clock.",
    "log.message.timestamp.type": "Whether records keep the producer's timestamp or get the append time.",
    "log.preallocate": "Stored and shown, without effect: segments are not preallocated.",
    "log.retention.bytes": "Maximum bytes of a partition. -1 is unlimited.",
    "log.retention.hours": "Hours that records are kept, without a finer unit.",
    "log.retention.minutes": "Minutes that records are kept, without log.retention.ms.",
    "log.retention.ms": "Milliseconds that records are kept. -1 is unlimited.",
    "log.roll.hours": "Hours after which a segment is rolled, without log.roll.ms.",
    "log.roll.jitter.hours": "Maximum random jitter of rolling, in hours, without log.roll.jitter.ms.",
    "log.roll.jitter.ms": "Maximum random jitter of rolling, in milliseconds.",
    "log.roll.ms": "Milliseconds after which a segment is rolled.",
    "log.segment.bytes": "Maximum size of a segment.",
    "log.segment.delete.delay.ms": "Delay before the file of a deleted segment is removed.",
    "message.max.bytes": "Maximum size of a record batch, after compression.",
    "min.insync.replicas": "Minimum ISR size for writes with acks=all.",
    # Background work
    "background.threads": "Threads of each kind of blocking work: syncs, cold reads, deletions.",
    "log.cleaner.backoff.ms": "Pause of the log cleaner when no log needs compaction.",
    "log.cleaner.dedupe.buffer.size": "Memory for the keys of logs under compaction, over all cleaner threads.",
    "log.cleaner.enable": "Whether the log cleaner runs.",
    "log.cleaner.io.buffer.load.factor": "Maximum load of the key table. More keys per pass cause more collisions.",
    "log.cleaner.threads": "Number of logs that are compacted concurrently.",
    "log.cleaner.io.max.bytes.per.second": "Rate limit of the log cleaner's reads and writes.",
    "log.flush.offset.checkpoint.interval.ms": "Interval of recovery point checkpoints.",
    "log.flush.scheduler.interval.ms": "Interval of checks for logs that are due for a sync.",
    "log.flush.start.offset.checkpoint.interval.ms": "Interval of log start offset checkpoints.",
    "log.initial.task.delay.ms": "Delay of background work after the start.",
    "log.retention.check.interval.ms": "Interval of retention checks.",
    "producer.id.expiration.check.interval.ms": "Interval of checks for expired producer IDs.",
    "producer.id.expiration.ms": "Time after which the state of an inactive producer ID is removed.",
    "follower.replication.throttled.rate": "Maximum bytes per second that throttled replicas of this broker fetch.",
    "leader.replication.throttled.rate": "Maximum bytes per second that followers fetch from throttled leaders.",
    "replica.alter.log.dirs.io.max.bytes.per.second": "Maximum bytes per second of log dir moves on this broker.",
    "quota.window.num": "Number of windows over which the rates of clients with quotas are measured.",
    "quota.window.size.seconds": "Length of a window of the rates of clients.",
    "controller.quota.window.num": "Windows of unused controller_mutation_rate that a client may use at once.",
    "controller.quota.window.size.seconds": "Length of a window of controller_mutation_rate.",
    "replication.quota.window.num": "Number of windows over which throttled rates are measured.",
    "replication.quota.window.size.seconds": "Length of a window of throttled rates.",
    "replica.fetch.backoff.ms": "Maximum backoff of a follower whose leader does not respond.",
    "replica.fetch.max.bytes": "Maximum bytes per partition in a follower's fetch. A larger batch is returned whole.",
    "replica.fetch.min.bytes": "Minimum bytes for which a leader delays a follower's fetch.",
    "replica.fetch.response.max.bytes": "Maximum bytes of a follower's fetch.",
    "replica.fetch.wait.max.ms": "Maximum time that a leader delays a follower's fetch.",
    "replica.lag.time.max.ms": "Time after which a follower that has not caught up leaves the ISR.",
    "replica.selector.class": "Class that selects the replica for consumers: the leader, or one in their rack.",
    "replica.high.watermark.checkpoint.interval.ms": "Interval of high watermark checkpoints.",
    # Metadata log
    "metadata.log.max.record.bytes.between.snapshots": "Bytes of metadata records between snapshots.",
    "metadata.log.max.snapshot.interval.ms": "Maximum time between snapshots if metadata changed. 0 disables it.",
    "metadata.log.segment.bytes": "Maximum size of a segment of the metadata log.",
    "metadata.log.segment.ms": "Time after which a segment of the metadata log is rolled.",
    "metadata.max.retention.bytes": "Maximum bytes of metadata log and snapshots.",
    "metadata.max.retention.ms": "Time that old metadata segments and snapshots are kept.",
    # Groups
    "group.consumer.assignment.interval.ms": "Minimum time between two assignments of a consumer group.",
    "group.consumer.assignors": "Server-side assignors of consumer groups. The first is the default.",
    "group.consumer.heartbeat.interval.ms": "Heartbeat interval of consumer group members.",
    "group.consumer.max.assignment.interval.ms": "Maximum assignment interval in a group's configs.",
    "group.consumer.max.heartbeat.interval.ms": "Maximum heartbeat interval in a group's configs.",
    "group.consumer.max.session.timeout.ms": "Maximum session timeout in a group's configs.",
    "group.consumer.max.size": "Maximum number of members of a consumer group.",
    "group.consumer.migration.policy": "Protocols that a group with members may be converted to.",
    "group.consumer.min.assignment.interval.ms": "Minimum assignment interval in a group's configs.",
    "group.consumer.min.heartbeat.interval.ms": "Minimum heartbeat interval in a group's configs.",
    "group.consumer.min.session.timeout.ms": "Minimum session timeout in a group's configs.",
    "group.consumer.regex.refresh.interval.ms": "Interval at which subscribed regular expressions are resolved again.",
    "group.consumer.session.timeout.ms": "Time without heartbeats after which a consumer group member is removed.",
    "group.initial.rebalance.delay.ms": "Time that the first rebalance of an empty group waits for more members.",
    "group.max.session.timeout.ms": "Maximum session timeout of classic group members.",
    "group.max.size": "Maximum number of members of a classic group.",
    "group.min.session.timeout.ms": "Minimum session timeout of classic group members.",
    "offset.metadata.max.bytes": "Maximum size of the metadata that is committed with an offset.",
    "offsets.commit.timeout.ms": "Time that a coordinator waits for the replication of its records.",
    "offsets.retention.check.interval.ms": "Interval of checks for expired offsets.",
    "offsets.retention.minutes": "Time that offsets are kept after a group became empty.",
    "offsets.topic.compression.codec": "Codec of the group coordinators' records, by number. 0 is none.",
    "offsets.topic.num.partitions": "Number of partitions of __consumer_offsets, at creation.",
    "offsets.topic.replication.factor": "Number of replicas of __consumer_offsets, at creation.",
    "offsets.topic.segment.bytes": "segment.bytes of __consumer_offsets, at creation.",
    # Transactions
    "add.partitions.to.txn.retry.backoff.max.ms": "Maximum wait for the previous transaction to end.",
    "add.partitions.to.txn.retry.backoff.ms": "Backoff between attempts to add a partition to a transaction.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "Interval of checks for timed out transactions.",
    "transaction.max.timeout.ms": "Maximum transaction timeout of a producer.",
    "transaction.partition.verification.enable": "Whether leaders verify that a transaction contains their partition.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "Interval of checks for expired transactional IDs.",
    "transaction.state.log.min.isr": "min.insync.replicas of __transaction_state.",
    "transaction.state.log.num.partitions": "Number of partitions of __transaction_state, at creation.",
    "transaction.state.log.replication.factor": "Number of replicas of __transaction_state, at creation.",
    "transaction.state.log.segment.bytes": "segment.bytes of __transaction_state, at creation.",
    "transaction.two.phase.commit.enable": "Whether producers may use two-phase commit, without a transaction timeout.",
    "transactional.id.expiration.ms": "Time after which an unused transactional ID is removed.",
}

_TOPIC = {
    "cleanup.policy": "Cleanup of old segments: delete, compact, or both. Empty keeps everything.",
    "compression.gzip.level": "Level for compression.type=gzip. -1 is the codec's default.",
    "compression.lz4.level": "Level for compression.type=lz4.",
    "compression.type": "Codec of stored batches. 'producer' keeps the producer's codec.",
    "compression.zstd.level": "Level for compression.type=zstd.",
    "delete.retention.ms": "Time that tombstones are kept, for consumers that read from the beginning.",
    "file.delete.delay.ms": "Delay before the file of a deleted segment is removed.",
    "flush.messages": "Number of records after which the log is synced. With 1, only synced records are acknowledged.",
    "flush.ms": "Time after which the log is synced to disk.",
    "follower.replication.throttled.replicas": "Throttled follower replicas, as partition:broker, or * for all.",
    "index.interval.bytes": "Bytes between two entries of the offset index.",
    "internal.segment.bytes": "Segment size below the public minimum, for tests.",
    "leader.replication.throttled.replicas": "Throttled leader replicas, as partition:broker, or * for all.",
    "max.compaction.lag.ms": "Maximum time before a record is compacted.",
    "max.message.bytes": "Maximum size of a record batch, after compression.",
    "message.timestamp.after.max.ms": "Maximum time that a timestamp may be ahead of the broker's clock.",
    "message.timestamp.before.max.ms": "Maximum time that a timestamp may be behind the broker's clock.",
    "message.timestamp.type": "Whether records keep the producer's timestamp or get the append time.",
    "min.cleanable.dirty.ratio": "Minimum share of dirty bytes before the log is compacted.",
    "min.compaction.lag.ms": "Minimum time before a record is compacted.",
    "min.insync.replicas": "Minimum ISR size for writes with acks=all.",
    "preallocate": "Stored and shown, without effect: segments are not preallocated.",
    "retention.bytes": "Maximum bytes of each partition. -1 is unlimited.",
    "retention.ms": "Time that records are kept. -1 is unlimited.",
    "segment.bytes": "Maximum size of a segment.",
    "segment.index.bytes": "Maximum size of an index file. A full index rolls its segment.",
    "segment.jitter.ms": "Maximum random jitter of rolling.",
    "segment.ms": "Time after which a segment is rolled.",
    "unclean.leader.election.enable": "Whether a replica outside the ISR may be elected, which can lose records.",
}

_SASL_AT_START = "mechanisms and logins are read at start: change the file and restart the node"
_AT_START = "listeners are bound at start: change the file and restart the node"
_FIXED_AT_START = {
    "config.providers": "config providers are used at start only, so that no client can make a broker read files: "
    "change the file and restart the node",
    "listener.security.protocol.map": _AT_START,
    "listeners": _AT_START,
    "ssl.cipher.suites": _AT_START,
    "ssl.client.auth": _AT_START,
    "ssl.enabled.protocols": _AT_START,
    "ssl.endpoint.identification.algorithm": _AT_START,
    "ssl.protocol": _AT_START,
    "sasl.enabled.mechanisms": _SASL_AT_START,
    "sasl.jaas.config": _SASL_AT_START,
    "sasl.kerberos.principal.to.local.rules": _SASL_AT_START,
    "sasl.kerberos.service.name": _SASL_AT_START,
    "sasl.mechanism.inter.broker.protocol": _SASL_AT_START,
}

_SASL_FOR_LISTENERS = (
    "connections.max.reauth.ms",
    "sasl.client.callback.handler.class",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.unsecured.tokens.enable",
    "sasl.server.callback.handler.class",
    "sasl.server.max.receive.size",
)

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

_ONE_LOOP = "a node is one process with one event loop: run more nodes to use more cores"
_NO_PLUGINS = "plugins are Java classes, which this node cannot load"
_NO_JAVA_SECURITY = "TLS is OpenSSL's, not Java's"
_NO_TICKETS = "a node accepts clients with the keys of its keytab, and has no tickets to renew"
_WITHOUT_EFFECT = {
    "sasl.kerberos.kinit.cmd": _NO_TICKETS,
    "sasl.kerberos.min.time.before.relogin": _NO_TICKETS,
    "sasl.kerberos.ticket.renew.jitter": _NO_TICKETS,
    "sasl.kerberos.ticket.renew.window.factor": _NO_TICKETS,
    "group.coordinator.append.linger.ms": "a coordinator writes at once, and batches concurrent writes",
    "group.coordinator.background.threads": _ONE_LOOP,
    "group.coordinator.cached.buffer.max.bytes": "coordinators cache no buffers",
    "group.coordinator.threads": _ONE_LOOP,
    "log.cleaner.io.buffer.size": "the log cleaner reads in chunks of a fixed size",
    "offsets.load.buffer.size": "the log is read in chunks of a fixed size",
    "transaction.state.log.load.buffer.size": "the log is read in chunks of a fixed size",
    "controller.quorum.append.linger.ms": "records are written at once, and concurrent writes share a sync",
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
    "security.providers": _NO_PLUGINS,
    "ssl.engine.factory.class": _NO_PLUGINS,
    "ssl.keymanager.algorithm": _NO_JAVA_SECURITY,
    "ssl.provider": _NO_JAVA_SECURITY,
    "ssl.secure.random.implementation": _NO_JAVA_SECURITY,
    "ssl.trustmanager.algorithm": _NO_JAVA_SECURITY,
}

_REJECTED: dict[str, str] = {}

_FOR_LISTENERS = frozenset(name for name in _BROKER if name.startswith("ssl.")) | frozenset(_SASL_FOR_LISTENERS)

BROKER: Mapping[str, str] = MappingProxyType(_BROKER)
TOPIC: Mapping[str, str] = MappingProxyType(_TOPIC)
FIXED_AT_START: Mapping[str, str] = MappingProxyType(_FIXED_AT_START)
RESERVED: Mapping[str, str] = MappingProxyType(_RESERVED)
WITHOUT_EFFECT: Mapping[str, str] = MappingProxyType(_WITHOUT_EFFECT)
REJECTED: Mapping[str, str] = MappingProxyType(_REJECTED)
FOR_LISTENERS: frozenset[str] = _FOR_LISTENERS
"""Configs that one listener may have another value of, as `listener.name.<name>.<config>`."""
