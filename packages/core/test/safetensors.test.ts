import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { dtypes } from '../src/spec/dtype.ts';
import { CheckpointError, DTypeError } from '../src/spec/errors.ts';
import type { HostArray, HostArrays } from '../src/serialization/host-array.ts';
import {
  decodeSafetensors,
  decodeSafetensorsHeader,
  encodeSafetensors,
} from '../src/serialization/safetensors.ts';

/** A file that Python's safetensors 0.8.0 wrote from torch tensors, with metadata {format: 'pt'}. */
const writtenByPython = Buffer.from(
  `OAIAAAAAAAB7Il9fbWV0YWRhdGFfXyI6eyJmb3JtYXQiOiJwdCJ9LCJjb3VudCI6eyJkdHlwZSI6Ikk2NCIsInNoYXBlIjpbXSwiZGF0YV9vZmZzZXRzIjpbMCw4XX0sImRvdWJsZSI6eyJkdHlwZSI6IkY2NCIsInNoYXBlIjpbMV0sImRhdGFfb2Zmc2V0cyI6WzgsMTZdfSwiYmlhcyI6eyJkdHlwZSI6IkYzMiIsInNoYXBlIjpbMl0sImRhdGFfb2Zmc2V0cyI6WzE2LDI0XX0sImVtcHR5Ijp7ImR0eXBlIjoiRjMyIiwic2hhcGUiOlswLDNdLCJkYXRhX29mZnNldHMiOlsyNCwyNF19LCJpbmRleCI6eyJkdHlwZSI6IkkzMiIsInNoYXBlIjpbMV0sImRhdGFfb2Zmc2V0cyI6WzI0LDI4XX0sImJyYWluIjp7ImR0eXBlIjoiQkYxNiIsInNoYXBlIjpbMV0sImRhdGFfb2Zmc2V0cyI6WzI4LDMwXX0sImhhbGYiOnsiZHR5cGUiOiJGMTYiLCJzaGFwZSI6WzIsMV0sImRhdGFfb2Zmc2V0cyI6WzMwLDM0XX0sImJ5dGUiOnsiZHR5cGUiOiJVOCIsInNoYXBlIjpbMV0sImRhdGFfb2Zmc2V0cyI6WzM0LDM1XX0sIm1hc2siOnsiZHR5cGUiOiJCT09MIiwic2hhcGUiOlszXSwiZGF0YV9vZmZzZXRzIjpbMzUsMzhdfX0gICAgICAgBwAAAAAAAACamZmZmZm5PwAAwD8AAADA/////0BAADwAOP8BAAE=`,
  'base64',
);

const bytesOf = (array: ArrayBufferView): Uint8Array =>
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
const shortBytes = (...values: number[]): Uint8Array => bytesOf(Uint16Array.from(values));

const pythonTensors: HostArrays = {
  bias: { dtype: 'f32', shape: [2], bytes: bytesOf(Float32Array.of(1.5, -2)) },
  count: { dtype: 'i64', shape: [], bytes: bytesOf(BigInt64Array.of(7n)) },
  half: { dtype: 'f16', shape: [2, 1], bytes: shortBytes(0x3c00, 0x3800) },
  brain: { dtype: 'bf16', shape: [1], bytes: shortBytes(0x4040) },
  mask: { dtype: 'bool', shape: [3], bytes: Uint8Array.of(1, 0, 1) },
  empty: { dtype: 'f32', shape: [0, 3], bytes: new Uint8Array() },
  byte: { dtype: 'u8', shape: [1], bytes: Uint8Array.of(255) },
  index: { dtype: 'i32', shape: [1], bytes: bytesOf(Int32Array.of(-1)) },
  double: { dtype: 'f64', shape: [1], bytes: bytesOf(Float64Array.of(0.1)) },
};

function plain(tensors: HostArrays): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(tensors).map(([name, { dtype, shape, bytes }]) => [
      name,
      { dtype, shape, bytes: [...bytes] },
    ]),
  );
}

/** A file with an arbitrary header. */
function file(header: unknown, dataBytes: number, headerBytes?: bigint): Uint8Array {
  const text = new TextEncoder().encode(
    typeof header === 'string' ? header : JSON.stringify(header),
  );
  const bytes = new Uint8Array(8 + text.byteLength + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, headerBytes ?? BigInt(text.byteLength), true);
  bytes.set(text, 8);
  return bytes;
}

const tensor: fc.Arbitrary<HostArray> = fc
  .tuple(
    fc.constantFrom('f64', 'f32', 'f16', 'bf16', 'i64', 'i32', 'u8', 'bool'),
    fc.array(fc.nat({ max: 4 }), { maxLength: 4 }),
  )
  .chain(([dtype, shape]) => {
    const byteLength = shape.reduce((product, size) => product * size, dtypes[dtype].bytes);
    return fc
      .uint8Array({ minLength: byteLength, maxLength: byteLength })
      .map((bytes) => ({ dtype, shape, bytes }));
  });

describe('the safetensors format', () => {
  it('is read as Python wrote it', () => {
    const { tensors, metadata } = decodeSafetensors(writtenByPython);
    expect(plain(tensors)).toEqual(plain(pythonTensors));
    expect(metadata).toEqual({ format: 'pt' });
  });

  it('is written byte for byte as Python writes it', () => {
    const written = encodeSafetensors(pythonTensors, { format: 'pt' });
    expect(Buffer.from(written).equals(writtenByPython)).toBe(true);
  });

  it('gives back every tensor, name and metadata that went in', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string({ unit: 'grapheme' }), tensor, { maxKeys: 8 }),
        fc.dictionary(fc.string(), fc.string(), { maxKeys: 3 }),
        (tensors, metadata) => {
          const decoded = decodeSafetensors(encodeSafetensors(tensors, metadata));
          expect(plain(decoded.tensors)).toEqual(plain(tensors));
          expect({ ...decoded.metadata }).toEqual({ ...metadata });
        },
      ),
    );
  });

  it('keeps a tensor whose name means something to JavaScript', () => {
    const byte: HostArray = { dtype: 'u8', shape: [1], bytes: Uint8Array.of(3) };
    const tensors = Object.fromEntries(
      ['__proto__', 'constructor', '7'].map((name) => [name, byte]),
    );
    expect(Object.keys(decodeSafetensors(encodeSafetensors(tensors)).tensors).sort()).toEqual(
      Object.keys(tensors).sort(),
    );
  });

  it('lays every tensor out on a multiple of its element size', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), tensor, { maxKeys: 8 }), (tensors) => {
        const bytes = encodeSafetensors(tensors);
        for (const entry of Object.values(decodeSafetensorsHeader(bytes, bytes.byteLength).entries))
          expect(entry.byteOffset % dtypes[entry.dtype].bytes).toBe(0);
      }),
    );
  });

  it('is read from the header alone when the data is elsewhere', () => {
    const { entries } = decodeSafetensorsHeader(
      writtenByPython.subarray(0, 600),
      writtenByPython.byteLength,
    );
    expect(entries['double']).toEqual({ dtype: 'f64', shape: [1], byteOffset: 584, byteLength: 8 });
  });

  it('refuses to write bytes that do not fit the shape', () => {
    expect(() =>
      encodeSafetensors({ w: { dtype: 'f32', shape: [2, 2], bytes: new Uint8Array(12) } }),
    ).toThrow(/tensor "w" \(f32 \[2, 2\]\).*12 bytes where dtype and shape make 16/);
  });
});

describe('a hostile or damaged safetensors file', () => {
  const entry = (begin: number, end: number, shape = [1], dtype = 'F32'): object => ({
    dtype,
    shape,
    data_offsets: [begin, end],
  });
  const cases: readonly [name: string, bytes: Uint8Array, message: RegExp][] = [
    ['is empty', new Uint8Array(), /expected 8 bytes for the header length, found 0/],
    ['is cut in the header', file({}, 0, 500n), /expected 508 bytes for the header, found 10/],
    [
      'announces an enormous header',
      file({}, 0, 2n ** 63n),
      /begins with the bytes 00 00 00 00 00 00 00 80, and not with the length of a header/,
    ],
    [
      'is a page',
      new TextEncoder().encode('<!DOCTYPE html>'),
      /begins with "<!DOCTYP".*Give a safetensors file/,
    ],
    [
      'is what torch.save writes',
      Uint8Array.of(0x50, 0x4b, 3, 4, 0, 0, 8, 8, 0),
      /begins with the bytes 50 4b 03 04 .*safetensors\.torch\.save_file/,
    ],
    ['is no JSON', file('{"a":', 0), /header of 5 bytes is no JSON object/],
    ['holds an array', file('[]', 0), /is no JSON object/],
    [
      'is cut in the data',
      file({ a: entry(0, 4) }, 3),
      /expected \d+ bytes for all tensors, found/,
    ],
    ['has bytes after the last tensor', file({ a: entry(0, 4) }, 5), /for all tensors, found/],
    [
      'has overlapping tensors',
      file({ a: entry(0, 4), b: entry(2, 6) }, 6),
      /"b" starts at data byte 2, the one before it ends at 4/,
    ],
    [
      'has a hole',
      file({ a: entry(0, 4), b: entry(8, 12) }, 12),
      /"b" starts at data byte 8, the one before it ends at 4/,
    ],
    [
      'has a size that is not shape x dtype',
      file({ a: entry(0, 4, [2]) }, 4),
      /"a" has 4 bytes, F32 \[2\] takes 8/,
    ],
    [
      'has dims whose product overflows',
      file({ a: entry(0, 4, [2 ** 50, 2 ** 50]) }, 4),
      /"a" has 4 bytes/,
    ],
    ['has a negative dim', file({ a: entry(0, 4, [-1]) }, 4), /entry "a" is malformed/],
    ['has offsets backwards', file({ a: entry(4, 0) }, 4), /"a" has -4 bytes/],
    ['lacks a shape', file({ a: { dtype: 'F32' } }, 4), /entry "a" is malformed/],
    ['has metadata that is no text', file({ __metadata__: { a: 1 } }, 0), /entry "__metadata__"/],
  ];
  it.each(cases)('that %s is refused with the numbers', (_, bytes, message) => {
    expect(() => decodeSafetensors(bytes)).toThrow(CheckpointError);
    expect(() => decodeSafetensors(bytes)).toThrow(message);
  });

  it('with a dtype that is none of ours names the tensor and the dtype', () => {
    const bytes = file({ a: entry(0, 1, [1], 'F8_E4M3') }, 1);
    expect(() => decodeSafetensors(bytes)).toThrow(DTypeError);
    expect(() => decodeSafetensors(bytes)).toThrow(
      /"a" has dtype F8_E4M3. Convert it to one of I64/,
    );
  });

  it('cut anywhere is refused, never read', () => {
    for (let length = 0; length < writtenByPython.byteLength; length += 1) {
      expect(() => decodeSafetensors(writtenByPython.subarray(0, length))).toThrow(CheckpointError);
    }
  });
});
