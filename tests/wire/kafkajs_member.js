// A group member using kafkajs: reads topics until it leaves the group, and prints its events as JSON lines.
// Its only argument is a plan as JSON: {bootstrap, group, topic, sessionTimeout}, and with {copyTo, transactionalId} it
// copies each batch in a transaction, together with its offsets, after a first attempt that it aborts. In the transaction
// {stopsIn}, counted from 1, it stops before the end and hangs. A line on standard input makes it leave.

const { Kafka, logLevel } = require("kafkajs");

const plan = JSON.parse(process.argv[2]);
const emit = (event) => process.stdout.write(JSON.stringify(event) + "\n");
const nextOffset = (message) => (BigInt(message.offset) + 1n).toString();

async function main() {
  const kafka = new Kafka({ brokers: [plan.bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 } });
  const consumer = kafka.consumer({
    groupId: plan.group,
    sessionTimeout: plan.sessionTimeout,
    heartbeatInterval: 200,
    maxWaitTimeInMs: 100,
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    emit({ joined: payload.memberId, partitions: payload.memberAssignment[plan.topic] ?? [] }));
  consumer.on(consumer.events.CRASH, ({ payload }) => emit({ crashed: String(payload.error) }));
  await consumer.connect();
  await consumer.subscribe({ topics: [plan.topic], fromBeginning: true });

  const read = async ({ batch }) => {
    for (const message of batch.messages) {
      emit({ read: Number(message.value), partition: batch.partition });
    }
    const offset = nextOffset(batch.messages.at(-1));
    await consumer.commitOffsets([{ topic: batch.topic, partition: batch.partition, offset }]);
    emit({ committed: offset, partition: batch.partition });
  };

  if (!plan.copyTo) {
    await consumer.run({ autoCommit: false, eachBatch: read });
  } else {
    const producer = kafka.producer({
      transactionalId: plan.transactionalId,
      idempotent: true,
      maxInFlightRequests: 1,
    });
    await producer.connect();
    let transactions = 0;
    const copy = async ({ batch }) => {
      const messages = batch.messages.map(({ value }) => ({ value, partition: batch.partition }));
      const partitions = [{ partition: batch.partition, offset: nextOffset(batch.messages.at(-1)) }];
      for (const isLast of [false, true]) {
        const transaction = await producer.transaction();
        transactions += 1;
        await transaction.send({ topic: plan.copyTo, messages });
        await transaction.sendOffsets({
          consumerGroupId: plan.group,
          topics: [{ topic: batch.topic, partitions }],
        });
        if (transactions === plan.stopsIn) {
          emit({ stopped: batch.partition });
          await new Promise(() => {});
        }
        await (isLast ? transaction.commit() : transaction.abort());
      }
      emit({ copied: messages.length });
    };
    await consumer.run({ autoCommit: false, eachBatch: copy });
  }

  process.stdin.once("data", async () => {
    await consumer.disconnect();
    emit({ left: true });
    process.exit(0);
  });
}

main().catch((problem) => {
  console.error(problem);
  process.exit(1);
});
