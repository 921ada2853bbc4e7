// Records as the protocol of the drivers has them, to and from kafkajs.
'use strict'
const crypto = require('node:crypto')

const VALUE_SHOWN_MAX = 4096

class Unsupported extends Error {}

const decoded = text => (text === null ? null : Buffer.from(text, 'base64'))
const encoded = bytes => (bytes === null || bytes === undefined ? null : bytes.toString('base64'))

function toWrite(record) {
  const { value } = record
  const message = {
    partition: record.partition,
    key: decoded(record.key),
    value: value !== null && typeof value === 'object' ? Buffer.alloc(value.fill, 'x') : decoded(value),
    headers: {},
  }
  if (record.timestamp !== undefined && record.timestamp !== null) {
    message.timestamp = String(record.timestamp)
  }
  for (const [name, content] of record.headers || []) {
    if (content === null) {
      throw new Unsupported('kafkajs cannot write a null header value')
    }
    ;(message.headers[name] ||= []).push(decoded(content))
  }
  return message
}

function shownValue(value) {
  if (value !== null && value.length > VALUE_SHOWN_MAX) {
    const sha256 = crypto.createHash('sha256').update(value).digest('hex')
    return { size: value.length, sha256 }
  }
  return encoded(value)
}

function shown(topic, partition, message) {
  const headers = Object.entries(message.headers || {}).flatMap(([name, contents]) =>
    (Array.isArray(contents) ? contents : [contents]).map(content => [name, encoded(content)])
  )
  return {
    topic,
    partition,
    offset: Number(message.offset),
    timestamp: Number(message.timestamp),
    key: encoded(message.key),
    value: shownValue(message.value),
    headers,
  }
}

module.exports = { Unsupported, shown, toWrite }
