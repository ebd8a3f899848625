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
  return event(wallTime, 0, textField(3, 'brain.Event:2'));
}

/** An event with scalars of a step, each under its tag. */
export function scalarEvent(
  wallTime: number,
  step: number,
  scalars: Readonly<Record<string, number>>,
): Uint8Array {
  const values = Object.entries(scalars).map(([tag, value]) => {
    const number = new Uint8Array(5);
    number[0] = (2 << 3) | 5;
    new DataView(number.buffer).setFloat32(1, value, true);
    return field(1, joined(textField(1, tag), number));
  });
  return event(wallTime, step, field(5, joined(...values)));
}

/** Step 0 is the default value of its field, and protobuf leaves it out. */
function event(wallTime: number, step: number, content: Uint8Array): Uint8Array {
  const time = new Uint8Array(9);
  time[0] = (1 << 3) | 1;
  new DataView(time.buffer).setFloat64(1, wallTime, true);
  const steps = step === 0 ? [] : [2 << 3, ...varint(step)];
  return joined(time, Uint8Array.from(steps), content);
}

function textField(number: number, text: string): Uint8Array {
  return field(number, new TextEncoder().encode(text));
}

function field(number: number, content: Uint8Array): Uint8Array {
  return joined(Uint8Array.from([(number << 3) | 2, ...varint(content.length)]), content);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  let left = value;
  for (; left > 127; left = Math.floor(left / 128)) bytes.push((left % 128) | 128);
  return [...bytes, left];
}

function joined(...parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
}
