import { readFileSync } from 'node:fs';
import { CheckpointError } from '@shardwise/core';
import {
  type Chunk,
  dtypes,
  elementCount,
  fromBytes,
  pickedFolder,
  type TensorSource,
  wholeChunk,
} from '@shardwise/core/extend';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { torchSource } from '../src/weights/torch-source.ts';

const base64 = z.string().transform((text) => new Uint8Array(Buffer.from(text, 'base64')));
const golden = z
  .object({
    tensors: z.record(
      z.string(),
      z.object({
        shape: z.array(z.number()),
        values: z.array(z.union([z.number(), z.string(), z.boolean()])),
      }),
    ),
    archive: base64,
    legacy: base64,
    training: base64,
    module: base64,
  })
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/torch-files.json`, 'utf8')));

function open(file: Uint8Array): Promise<TensorSource> {
  const name = 'pytorch_model.bin';
  return torchSource(pickedFolder([new File([new Uint8Array(file)], name)]), name);
}

async function read(source: TensorSource, name: string, chunk?: Chunk): Promise<readonly number[]> {
  const type = source.get(name);
  if (type === undefined) throw new RangeError(name);
  const all = chunk ?? wholeChunk(type.shape);
  await using reader = source.open();
  const bytes = new Uint8Array((all.stop - all.start) * dtypes[type.dtype].bytes);
  await reader.fill(name, all, bytes, { layout: { dims: [], partial: [] } });
  if (type.dtype === 'f16') return Array.from(new Float16Array(bytes.buffer));
  if (type.dtype === 'bf16') {
    const words = Uint32Array.from(new Uint16Array(bytes.buffer), (half) => half << 16);
    return Array.from(new Float32Array(words.buffer));
  }
  return Array.from(fromBytes(bytes, type.dtype), Number);
}

async function refusal(file: Uint8Array): Promise<CheckpointError> {
  const error = await open(file).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof CheckpointError))
    throw new TypeError('no CheckpointError', { cause: error });
  return error;
}

describe.each(['archive', 'legacy'] as const)('a file of torch.save, %s', (form) => {
  it('has the tensors that PyTorch has saved, also views and shared storages', async () => {
    const source = await open(golden[form]);
    expect(source.names).toEqual(Object.keys(golden.tensors));
    for (const [name, { shape, values }] of Object.entries(golden.tensors)) {
      expect(source.get(name)?.shape, name).toEqual(shape);
      expect(await read(source, name), name).toEqual(values.map(Number));
    }
  });

  it('gives any elements of a tensor', async () => {
    const source = await open(golden[form]);
    for (const name of ['weight', 'transposed', 'columns']) {
      const { shape = [], values = [] } = golden.tensors[name] ?? {};
      const [rows = 0, columns = 0] = shape;
      const box = [
        { start: 1, stop: rows },
        { start: 1, stop: columns },
      ];
      const inBox = values.filter(
        (_, index) => Math.floor(index / columns) > 0 && index % columns > 0,
      );
      const stop = elementCount([rows - 1, columns - 1]);
      const chunk = { box, start: 1, stop };
      expect(await read(source, name, chunk), name).toEqual(inBox.slice(1).map(Number));
    }
  });

  it('is an error wherever it is cut off', async () => {
    const file = golden[form];
    for (let length = 0; length < file.byteLength; length += 97) {
      expect(await refusal(file.subarray(0, length)), `${length} bytes`).toBeInstanceOf(
        CheckpointError,
      );
    }
  });

  it('is an error or has other numbers if a byte of it is another one, and never anything else', async () => {
    const file = golden[form];
    for (let at = 0; at < file.byteLength; at += 7) {
      const changed = file.slice();
      changed[at] = (changed[at] ?? 0) ^ 0xff;
      const outcome = await open(changed).then(
        () => 'opened',
        (error: unknown) => (error instanceof CheckpointError ? 'refused' : error),
      );
      expect(['opened', 'refused'], `byte ${at}`).toContain(outcome);
    }
  });
});

describe('a checkpoint of a training', () => {
  it('has the tensors of its state dicts under joined names', async () => {
    const source = await open(golden.training);
    expect(source.names).toEqual(['model.weight', 'model.bias']);
    expect(await read(source, 'model.weight')).toEqual([0.5, 0.5]);
  });
});

describe('a pickle of anything but tensors', () => {
  const text = new TextEncoder();
  const pickle = (...parts: readonly (string | number)[]): Uint8Array =>
    Uint8Array.from(
      parts.flatMap((part) => (typeof part === 'string' ? [...text.encode(part)] : [part])),
    );

  it('is refused where a module was saved as a whole, with the class', async () => {
    expect((await refusal(golden.module)).message).toMatch(
      /at byte \d+ of the pickle: the class or function "torch\.nn\.modules\.linear\.Linear".*Nothing of the file was executed/,
    );
  });

  it.each([
    [
      'a function of the system',
      pickle(0x80, 2, 'cos\nsystem\n', 'X', 2, 0, 0, 0, 'ls', 0x85, 'R.'),
      2,
      /"os\.system"/,
    ],
    [
      'a function of the system, by name',
      pickle(0x80, 4, 0x8c, 5, 'posix', 0x8c, 6, 'system', 0x93, '.'),
      17,
      /"posix\.system"/,
    ],
    [
      'eval behind a name of the list',
      pickle(0x80, 2, 'cbuiltins\neval\n.'),
      2,
      /"builtins\.eval"/,
    ],
    ['a new object', pickle(0x80, 2, 'ccollections\nOrderedDict\n', ')', 0x81, '.'), 28, /0x81/],
    ['an instance of a class', pickle('(icollections\nOrderedDict\n.'), 1, /0x69/],
    ['a class of the extension registry', pickle(0x80, 2, 0x82, 1, '.'), 2, /0x82/],
    ['a persistent id as text', pickle('P1\n.'), 0, /0x50/],
    [
      'a call with other inputs',
      pickle(0x80, 2, 'ccollections\nOrderedDict\n', 'N', 0x85, 'R.'),
      29,
      /other inputs/,
    ],
    [
      'a call of a storage',
      pickle(0x80, 2, 'ctorch\nFloatStorage\n)R.'),
      23,
      /a call of torch\.FloatStorage/,
    ],
    ['attributes of a class', pickle(0x80, 2, 'ctorch\nFloatStorage\n}b.'), 23, /attributes/],
    ['a reference to nothing', pickle(0x80, 2, 'h', 5, '.'), 2, /a reference to value 5/],
    ['an empty stack', pickle(0x80, 2, 'R.'), 2, /without a value/],
  ])('is refused with its offset: %s', async (_, file, byteOffset, message) => {
    const error = await refusal(file);
    expect(error.message).toMatch(message);
    expect(error.fields).toMatchObject({ byteOffset });
  });

  it('is refused if it ends early or claims more bytes than there are', async () => {
    for (const file of [
      pickle(0x80, 2, '}'),
      pickle(0x80, 2, 'X', 255, 255, 255, 255, 'a'),
      pickle(''),
    ]) {
      expect((await refusal(file)).message).toMatch(/does not end/);
    }
  });
});

describe('an archive', () => {
  it('with compressed files is refused, because they could expand without limit', async () => {
    const file = golden.archive.slice();
    const view = new DataView(file.buffer);
    for (let at = 0; at + 4 <= file.byteLength; at++) {
      // The method of compression in the directory.
      if (view.getUint32(at, true) === 0x02014b50) view.setUint16(at + 10, 8, true);
    }
    expect((await refusal(file)).message).toMatch(/the compressed file "archive\/data\.pkl"/);
  });
});

/** The same archive with numbers of 64 bits, as PyTorch writes it from 4 GiB on. */
function toZip64(archive: Uint8Array, numbers = (offset: bigint): bigint => offset): Uint8Array {
  const view = new DataView(archive.buffer, archive.byteOffset, archive.byteLength);
  const end = archive.byteLength - 22;
  const [count, start] = [view.getUint16(end + 10, true), view.getUint32(end + 16, true)];
  const entries: Buffer[] = [];
  for (let at = start; entries.length < 2 * count;) {
    const lengths = [28, 30, 32].map((field) => view.getUint16(at + field, true));
    const [nameBytes = 0] = lengths;
    const head = Buffer.from(archive.subarray(at, at + 46 + nameBytes));
    const [size, offset] = [head.readUInt32LE(24), head.readUInt32LE(42)];
    // An extra field of another kind lies before that of zip64.
    const extra = Buffer.alloc(8 + 4 + 24);
    extra.writeUInt16LE(0x5455, 0);
    extra.writeUInt16LE(4, 2);
    extra.writeUInt16LE(1, 8);
    extra.writeUInt16LE(24, 10);
    extra.writeBigUInt64LE(BigInt(size), 12);
    extra.writeBigUInt64LE(BigInt(size), 20);
    extra.writeBigUInt64LE(numbers(BigInt(offset)), 28);
    for (const field of [20, 24, 42]) head.writeUInt32LE(0xffffffff, field);
    head.writeUInt16LE(extra.length, 30);
    head.writeUInt16LE(0, 32);
    entries.push(head, extra);
    at += 46 + lengths.reduce((sum, length) => sum + length, 0);
  }
  const directory = Buffer.concat(entries);
  const record = Buffer.alloc(56);
  record.writeUInt32LE(0x06064b50, 0);
  record.writeBigUInt64LE(44n, 4);
  record.writeBigUInt64LE(BigInt(count), 24);
  record.writeBigUInt64LE(BigInt(count), 32);
  record.writeBigUInt64LE(BigInt(directory.length), 40);
  record.writeBigUInt64LE(numbers(BigInt(start)), 48);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07064b50, 0);
  locator.writeBigUInt64LE(BigInt(start + directory.length), 8);
  locator.writeUInt32LE(1, 16);
  const last = Buffer.alloc(22, 0xff);
  last.writeUInt32LE(0x06054b50, 0);
  last.writeUInt16LE(0, 20);
  return Buffer.concat([archive.subarray(0, start), directory, record, locator, last]);
}

describe('an archive of zip64', () => {
  it('has the tensors of the same archive with numbers of 32 bits', async () => {
    const source = await open(toZip64(golden.archive));
    expect(source.names).toEqual(Object.keys(golden.tensors));
    for (const [name, { values }] of Object.entries(golden.tensors)) {
      expect(await read(source, name), name).toEqual(values.map(Number));
    }
  });

  it.each([
    ['beyond the file', (offset: bigint) => offset + 2n ** 40n],
    ['beyond the numbers that are exact', (offset: bigint) => offset + 2n ** 60n],
    ['in the middle of a file', (offset: bigint) => offset + 5n],
  ])('is an error if its numbers point %s', async (_, numbers) => {
    expect(await refusal(toZip64(golden.archive, numbers))).toBeInstanceOf(CheckpointError);
  });

  it('is an error wherever its end is cut off, or a byte of its directory is another one', async () => {
    const file = toZip64(golden.archive);
    for (let length = file.byteLength - 1; length > file.byteLength - 99; length -= 1) {
      expect(await refusal(file.subarray(0, length))).toBeInstanceOf(CheckpointError);
    }
    for (let at = file.byteLength - 98; at < file.byteLength - 42; at += 1) {
      const changed = Uint8Array.from(file);
      changed[at] = (changed[at] ?? 0) ^ 0xff;
      const outcome = await open(changed).then(
        () => 'opened',
        (error: unknown) => (error instanceof CheckpointError ? 'refused' : error),
      );
      expect(['opened', 'refused'], `byte ${at}`).toContain(outcome);
    }
  });
});
