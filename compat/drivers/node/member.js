// A kafkajs consumer that collects what it is handed until somebody asks: kafkajs pushes records,
// the protocol of the drivers pulls them.
'use strict'
const { AssignerProtocol } = require('kafkajs')
const { shown } = require('./records')

const REQUEST_BYTES_MAX = 64 << 20

// kafkajs has a round robin only; the other clients call this strategy "range".
const rangeAssigner = ({ cluster }) => ({
  name: 'range',
  version: 0,
  protocol: ({ topics }) => ({
    name: 'range',
    metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics, userData: Buffer.alloc(0) }),
  }),
  async assign({ members, topics }) {
    const ids = members.map(({ memberId }) => memberId).sort()
    const assignments = Object.fromEntries(ids.map(id => [id, {}]))
    for (const topic of topics) {
      const partitions = cluster.findTopicPartitionMetadata(topic).map(p => p.partitionId).sort((a, b) => a - b)
      const share = Math.floor(partitions.length / ids.length)
      const more = partitions.length % ids.length
      ids.forEach((id, index) => {
        const start = index * share + Math.min(index, more)
        assignments[id][topic] = partitions.slice(start, start + share + (index < more ? 1 : 0))
      })
    }
    return ids.map(memberId => ({
      memberId,
      memberAssignment: AssignerProtocol.MemberAssignment.encode({
        version: 0,
        assignment: assignments[memberId],
        userData: Buffer.alloc(0),
      }),
    }))
  },
})

class Member {
  constructor(kafka, groupId) {
    this.consumer = kafka.consumer({
      groupId,
      sessionTimeout: 10000,
      heartbeatInterval: 500,
      maxWaitTimeInMs: 100,
      maxBytes: REQUEST_BYTES_MAX,
      maxBytesPerPartition: REQUEST_BYTES_MAX,
      partitionAssigners: [rangeAssigner],
    })
    this.queue = []
    this.positions = new Map()
    this.assignment = []
    this.joined = new Promise(resolve => {
      this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
        this.assignment = Object.entries(payload.memberAssignment).flatMap(([topic, partitions]) =>
          partitions.map(partition => `${topic}-${partition}`)
        )
        resolve()
      })
    })
  }

  async start(topics) {
    await this.consumer.connect()
    await this.consumer.subscribe({ topics, fromBeginning: true })
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) => {
        this.queue.push(shown(topic, partition, message))
      },
    })
  }

  async poll(count, timeoutMs) {
    const deadline = Date.now() + timeoutMs
    while (this.queue.length < count && Date.now() < deadline) {
      await new Promise(resolve => setTimeout(resolve, 10))
    }
    const records = this.queue.splice(0, count)
    for (const { topic, partition, offset } of records) {
      this.positions.set(`${topic}-${partition}`, { topic, partition, offset: String(offset + 1) })
    }
    return records
  }

  async commit() {
    const owned = [...this.positions.entries()].filter(([name]) => this.assignment.includes(name))
    if (owned.length > 0) {
      await this.consumer.commitOffsets(owned.map(([, position]) => position))
    }
  }

  async stop() {
    await this.consumer.disconnect()
  }
}

module.exports = { Member }
