// Logs in with kafkajs: reads a plan as JSON from standard input, produces one record, prints the record it reads.
// A failure prints the error and ends with 1.

const { Kafka, logLevel } = require("kafkajs");

async function main() {
  const plan = JSON.parse(require("fs").readFileSync(0, "utf8"));
  const sasl = plan.mechanism && {
    mechanism: plan.mechanism,
    username: plan.username,
    password: plan.password,
    oauthBearerProvider: async () => ({ value: plan.token }),
  };
  const kafka = new Kafka({
    brokers: [plan.bootstrap],
    ssl: { ca: [plan.ca], cert: plan.own, key: plan.own },
    sasl,
    logLevel: logLevel.NOTHING,
    retry: { retries: 1 },
  });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic: plan.topic, messages: [{ value: plan.value, partition: 0 }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: plan.topic });
  await consumer.connect();
  await consumer.subscribe({ topic: plan.topic, fromBeginning: true });
  const value = await new Promise((resolve) =>
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }),
  );
  await consumer.disconnect();
  process.stdout.write(value);
}

main().catch((problem) => {
  console.error(`${problem.name}: ${problem.message}`);
  process.exit(1);
});
