// One session of kafkajs: reads a plan as JSON from standard input, carries it out, prints what happened as JSON.
// A plan is {bootstrap, steps: [[action, argument], ...]}; an action that fails reports {error: type}.

const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

async function main() {
  const plan = JSON.parse(require("fs").readFileSync(0, "utf8"));
  const kafka = new Kafka({ brokers: [plan.bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 3 } });
  const admin = kafka.admin();
  await admin.connect();

  const actions = {
    createTopics: (topics) => admin.createTopics({ topics, waitForLeaders: true }),
    createPartitions: (topicPartitions) => admin.createPartitions({ topicPartitions }),
    deleteTopics: (topics) => admin.deleteTopics({ topics }),
    deleteRecords: ({ topic, partitions }) => admin.deleteTopicRecords({ topic, partitions }),
    listTopics: () => admin.listTopics(),
    describeCluster: () => admin.describeCluster(),
    metadata: (topics) => admin.fetchTopicMetadata({ topics }),
    offsets: (topic) => admin.fetchTopicOffsets(topic),
    offsetsByTime: ({ topic, timestamp }) => admin.fetchTopicOffsetsByTimestamp(topic, timestamp),
    describeConfigs: (resources) => admin.describeConfigs({ resources, includeSynonyms: false }),
    alterConfigs: (resources) => admin.alterConfigs({ resources, validateOnly: false }),
    produce: async ({ idempotent, acks, gzip, topic, messages }) => {
      const producer = kafka.producer({ idempotent, maxInFlightRequests: 1 });
      await producer.connect();
      const compression = gzip ? CompressionTypes.GZIP : CompressionTypes.None;
      try {
        return await producer.send({ topic, acks, compression, messages });
      } finally {
        await producer.disconnect();
      }
    },
  };

  const outcomes = [];
  for (const [action, argument] of plan.steps) {
    try {
      outcomes.push((await actions[action](argument)) ?? null);
    } catch (problem) {
      const cause = problem.errors?.[0] ?? problem.partitions?.[0]?.error ?? problem.cause ?? problem;
      outcomes.push({ error: cause.type ?? cause.message });
    }
  }
  await admin.disconnect();
  process.stdout.write(JSON.stringify(outcomes));
}

main().catch((problem) => {
  console.error(problem);
  process.exit(1);
});
