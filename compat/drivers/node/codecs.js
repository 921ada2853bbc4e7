// kafkajs brings gzip only; the other codecs are put in here, none of them native.
'use strict'
const { CompressionCodecs, CompressionTypes } = require('kafkajs')
const fzstd = require('fzstd')
const lz4 = require('lz4js')
const xxh32 = require('lz4js/xxh32.js')
const snappy = require('snappyjs')
const zstd = require('@bokuweb/zstd-wasm')

// The Java client frames snappy in blocks: 16 bytes of header, then (size, block) again and again.
const XERIAL_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0])
const XERIAL_HEADER_SIZE = 16

function snappyDecompressed(buffer) {
  if (!buffer.subarray(0, XERIAL_MAGIC.length).equals(XERIAL_MAGIC)) {
    return snappy.uncompress(buffer)
  }
  const blocks = []
  for (let position = XERIAL_HEADER_SIZE; position < buffer.length; ) {
    const size = buffer.readInt32BE(position)
    blocks.push(snappy.uncompress(buffer.subarray(position + 4, position + 4 + size)))
    position += 4 + size
  }
  return Buffer.concat(blocks)
}

// lz4js does not say that its blocks stand alone, and the Java client takes no others. Data of up
// to 4 MB is one block, so it is true; the third byte of the descriptor is the checksum of the two
// before it.
const LZ4_FLAGS = 4
const LZ4_INDEPENDENT_BLOCKS = 0x20

function lz4Compressed(buffer) {
  const frame = Buffer.from(lz4.compress(buffer))
  frame[LZ4_FLAGS] |= LZ4_INDEPENDENT_BLOCKS
  frame[LZ4_FLAGS + 2] = (xxh32.hash(0, frame, LZ4_FLAGS, 2) >>> 8) & 0xff
  return frame
}

const LZ4_BLOCK_CHECKSUM = 0x10
const LZ4_CONTENT_SIZE = 0x08
const LZ4_STORED = 0x80000000

// Its reader of frames looks for the checksum of a block before the block, so only its reader of
// blocks is used. A frame is: magic, flags, block size, [content size], checksum, blocks, size 0.
function lz4Decompressed(frame) {
  const flags = frame[LZ4_FLAGS]
  const blockSizeMax = 1 << (8 + 2 * ((frame[LZ4_FLAGS + 1] >> 4) & 7))
  const checksumSize = flags & LZ4_BLOCK_CHECKSUM ? 4 : 0
  const blocks = []
  let position = LZ4_FLAGS + 3 + (flags & LZ4_CONTENT_SIZE ? 8 : 0)
  for (let word = frame.readUInt32LE(position); word !== 0; word = frame.readUInt32LE(position)) {
    const start = position + 4
    const size = word & ~LZ4_STORED
    if (word & LZ4_STORED) {
      blocks.push(frame.subarray(start, start + size))
    } else {
      const block = Buffer.alloc(blockSizeMax)
      blocks.push(block.subarray(0, lz4.decompressBlock(frame, block, start, size, 0)))
    }
    position = start + size + checksumSize
  }
  return Buffer.concat(blocks)
}

async function install() {
  await zstd.init()
  CompressionCodecs[CompressionTypes.Snappy] = () => ({
    compress: async encoder => Buffer.from(snappy.compress(encoder.buffer)),
    decompress: async buffer => snappyDecompressed(buffer),
  })
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async encoder => lz4Compressed(encoder.buffer),
    decompress: async buffer => lz4Decompressed(buffer),
  })
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async encoder => Buffer.from(zstd.compress(encoder.buffer)),
    decompress: async buffer => Buffer.from(fzstd.decompress(buffer)),
  })
}

const TYPES = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

module.exports = { install, TYPES }
