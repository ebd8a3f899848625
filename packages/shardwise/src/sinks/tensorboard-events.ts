import { ProtobufWriter } from '@shardwise/core/base';

// The format of TensorBoard's event files: records of TFRecord that contain messages of protobuf (tensorboard/compat/proto/event.proto
// and summary.proto).

const CASTAGNOLI = 0x82f63b78;

const crcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ CASTAGNOLI : crc >>> 1;
  return crc;
});

/** The CRC-32C (Castagnoli) of bytes. */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ (crcTable[(crc ^ byte) & 0xff] ?? 0);
  return (crc ^ 0xffffffff) >>> 0;
}

/** The checksum of a record: a CRC that stays one when it is stored beside data that has it. */
function masked(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

/** A record: the length as u64, its checksum, the payload, its checksum. All numbers are little-endian. */
export function encodeRecord(payload: Uint8Array): Uint8Array {
  const record = new Uint8Array(payload.length + 16);
  const view = new DataView(record.buffer);
  view.setBigUint64(0, BigInt(payload.length), true);
  view.setUint32(8, masked(record.subarray(0, 8)), true);
  record.set(payload, 12);
  view.setUint32(12 + payload.length, masked(payload), true);
  return record;
}

/** The first event of a file. `wallTime` is in seconds since the epoch. */
export function versionEvent(wallTime: number): Uint8Array {
  return event(wallTime, 0, (writer) => writer.string(3, 'brain.Event:2'));
}

/** An event with scalars of a step, each under its tag. */
export function scalarEvent(
  wallTime: number,
  step: number,
  scalars: Readonly<Record<string, number>>,
): Uint8Array {
  return event(wallTime, step, (writer) =>
    writer.message(5, (summary) => {
      for (const [tag, value] of Object.entries(scalars)) {
        summary.message(1, (scalar) => {
          scalar.string(1, tag);
          scalar.float(2, value);
        });
      }
    }),
  );
}

/** Step 0 is the default value of its field, and protobuf leaves it out. */
function event(wallTime: number, step: number, fill: (writer: ProtobufWriter) => void): Uint8Array {
  const writer = new ProtobufWriter();
  writer.double(1, wallTime);
  if (step !== 0) writer.int(2, step);
  fill(writer);
  return writer.finish();
}
