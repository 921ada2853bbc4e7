// kafkajs as a driver; the verbs are described in compat/drivers/README.md.
'use strict'
const readline = require('node:readline')
const { ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
const codecs = require('./codecs')
const { Member } = require('./member')
const { Unsupported, shown, toWrite } = require('./records')

const kafka = new Kafka({
  brokers: [process.argv[2]],
  logLevel: logLevel.WARN,
  logCreator: () => ({ log }) => process.stderr.write(`${log.message} ${JSON.stringify(log)}\n`),
  retry: { initialRetryTime: 50, retries: 8 },
  requestTimeout: 40000,
})
const admin = kafka.admin()
const members = new Map()
let readers = 0

const verbs = {
  about() {
    const { version } = require('kafkajs/package.json')
    return { client: 'kafkajs', version, lacks: ['null header values'] }
  },

  async create_topic({ topic, partitions, configs }) {
    const configEntries = Object.entries(configs || {}).map(([name, value]) => ({ name, value }))
    const topics = [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }]
    const created = await admin.createTopics({ topics, timeout: 30000, waitForLeaders: false })
    if (!created) {
      throw Object.assign(new Error(`${topic} exists`), { type: 'TOPIC_ALREADY_EXISTS' })
    }
  },

  async delete_topic({ topic }) {
    await admin.deleteTopics({ topics: [topic], timeout: 30000 })
  },

  async add_partitions({ topic, total }) {
    await admin.createPartitions({ topicPartitions: [{ topic, count: total }], timeout: 30000 })
  },

  async topics() {
    return { topics: await admin.listTopics() }
  },

  async partitions({ topic }) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return { partitions: topics[0].partitions.length }
  },

  async describe_topic({ topic }) {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic }]
    const { resources: described } = await admin.describeConfigs({ resources, includeSynonyms: false })
    const configs = described[0].configEntries.map(entry => [entry.configName, entry.configValue])
    return { configs: Object.fromEntries(configs) }
  },

  async alter_topic({ topic, name, value }) {
    const configEntries = [{ name, value }]
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }]
    await admin.alterConfigs({ resources, validateOnly: false })
  },

  async delete_records({ topic, partition, offset }) {
    await admin.fetchTopicOffsets(topic) // kafkajs looks for leaders before it asks for them
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] })
  },

  async offset({ topic, partition, at }) {
    if (at === 'earliest' || at === 'latest') {
      const found = (await admin.fetchTopicOffsets(topic)).find(each => each.partition === partition)
      return { offset: Number(at === 'earliest' ? found.low : found.high) }
    }
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, Number(at))
    return { offset: Number(found.find(each => each.partition === partition).offset) }
  },

  async produce({ topic, records, codec = 'none', acks = -1, idempotent = false }) {
    const messages = records.map(toWrite)
    const producer = kafka.producer({ idempotent, maxInFlightRequests: 1 })
    await producer.connect()
    try {
      const sent = await producer.send({ topic, messages, acks, compression: codecs.TYPES[codec], timeout: 15000 })
      return { offsets: acks === 0 ? records.map(() => null) : offsetsOf(messages, sent) }
    } finally {
      await producer.disconnect()
    }
  },

  async produce_empty() {
    throw new Unsupported('kafkajs sends nothing for no messages')
  },

  async transact({ id, topic, records, end, group, offset }) {
    const producer = kafka.producer({ transactionalId: id, idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    const transaction = await producer.transaction()
    await transaction.send({ topic, messages: records.map(toWrite), acks: -1, timeout: 15000 })
    if (group !== null) {
      const partitions = [{ partition: 0, offset: String(offset) }]
      await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic, partitions }] })
    }
    if (end === 'none') {
      return
    }
    await (end === 'commit' ? transaction.commit() : transaction.abort())
    await producer.disconnect()
  },

  // kafkajs reads committed records unless it is told otherwise
  async read({ topic, partitions, from = 0, count, timeout_ms: timeoutMs }) {
    readers += 1
    const member = new Member(kafka, `kafkajs-reads-${process.pid}-${readers}`)
    const records = []
    try {
      await member.start([topic])
      await member.joined
      for (const partition of partitions.slice(0, from > 0 ? undefined : 0)) {
        member.consumer.seek({ topic, partition, offset: String(from) })
      }
      const wanted = new Set(partitions)
      const deadline = Date.now() + timeoutMs
      while (records.length < count && Date.now() < deadline) {
        const polled = await member.poll(1, Math.min(100, timeoutMs))
        records.push(...polled.filter(({ partition, offset }) => wanted.has(partition) && offset >= from))
      }
    } finally {
      await member.stop()
    }
    return { records }
  },

  async join({ member: name, group, topics, strategy = 'range', instance }) {
    if (strategy === 'server') {
      throw new Unsupported('kafkajs has no consumer protocol')
    }
    if (strategy !== 'range') {
      throw new Unsupported('kafkajs has no cooperative rebalance')
    }
    if (instance) {
      throw new Unsupported('kafkajs has no static members')
    }
    const member = new Member(kafka, group)
    members.set(name, member)
    member.started = member.start(topics)
  },

  async poll({ member: name, count, timeout_ms: timeoutMs }) {
    const member = members.get(name)
    await Promise.race([member.started, new Promise(resolve => setTimeout(resolve, timeoutMs))])
    return { records: await member.poll(count, timeoutMs), assignment: member.assignment }
  },

  async commit({ member }) {
    await members.get(member).commit()
  },

  async leave({ member }) {
    await members.get(member).started
    await members.get(member).stop()
    members.delete(member)
  },

  async committed({ group, topic }) {
    const [found] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    const known = found.partitions.filter(({ offset }) => Number(offset) >= 0)
    return { offsets: Object.fromEntries(known.map(each => [String(each.partition), Number(each.offset)])) }
  },

  async groups() {
    return { groups: (await admin.listGroups()).groups.map(({ groupId }) => groupId) }
  },

  async delete_group({ group }) {
    await admin.deleteGroups([group])
  },
}

// kafkajs tells the first offset of each partition; a producer's records follow one another there.
function offsetsOf(messages, sent) {
  const next = new Map(sent.map(each => [each.partition, Number(each.baseOffset)]))
  return messages.map(({ partition }) => {
    const offset = next.get(partition)
    next.set(partition, offset + 1)
    return offset
  })
}

// kafkajs wraps the error that a broker gave in one, two or three others.
function nameOf(error) {
  const inner = error.cause || error.errors?.[0] || error.groups?.[0]?.error
  return error.type || (inner ? nameOf(inner) : error.name)
}

async function answer(line) {
  const command = JSON.parse(line)
  const verb = verbs[command.do]
  if (!verb) {
    return { unsupported: `the JavaScript program has no verb ${command.do}` }
  }
  try {
    return { ok: (await verb(command)) || {} }
  } catch (error) {
    if (error instanceof Unsupported) {
      return { unsupported: error.message }
    }
    process.stderr.write(`${command.do}: ${error.stack}\n`)
    return { error: { name: nameOf(error), message: String(error.message) } }
  }
}

async function main() {
  await codecs.install()
  await admin.connect()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(JSON.stringify(await answer(line)) + '\n')
  }
  process.exit(0)
}

main()
