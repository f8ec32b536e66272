"""Logs in with GSSAPI in a process whose path has the package gssapi, produces a record and reads it again.

Arguments: aiokafka or kafka-python, the bootstrap address, the name of the service, a topic.
"""

import asyncio
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

TIMEOUT_S = 20


def kafka_python(settings: dict[str, Any], topic: str) -> bytes:
    producer = KafkaProducer(**settings, sasl_kerberos_name=None, max_block_ms=5000, bootstrap_timeout_ms=3000)
    producer.send(topic, b"record", partition=0).get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(**settings)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    (record,) = consumer.poll(timeout_ms=TIMEOUT_S * 1000)[partition]
    consumer.close()
    value: bytes = record.value
    return value


async def aiokafka(settings: dict[str, Any], topic: str) -> bytes:
    async with AIOKafkaProducer(**settings) as producer:
        await producer.send_and_wait(topic, b"record", partition=0)
    async with AIOKafkaConsumer(**settings) as consumer:
        consumer.assign([AioPartition(topic, 0)])
        await consumer.seek_to_beginning()
        value: bytes = (await consumer.getone()).value
        return value


def main() -> None:
    client, bootstrap, service, topic = sys.argv[1:]
    settings = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": service,
        "sasl_kerberos_domain_name": "localhost",
    }
    if client == "aiokafka":
        value = asyncio.run(asyncio.wait_for(aiokafka(settings, topic), TIMEOUT_S))
    else:
        value = kafka_python(settings, topic)
    print(value.decode())


if __name__ == "__main__":
    main()
