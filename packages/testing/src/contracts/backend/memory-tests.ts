import { equal, holds, rejects, throws } from '../../suite/assertions.ts';
import { BackendError, OutOfMemoryError } from '@shardwise/core/spec';
import type { Backend } from '@shardwise/core/spec';
import type { ContractTest } from './contract-test.ts';
import { toBytes } from './device.ts';
import { f32 } from './host-value.ts';
import { ProgramBuilder } from './program-builder.ts';

const NEG = { op: 'neg', params: {} } as const;

/** Tests of alloc, free, write, read, map and sub-buffers. */
export const memoryTests: readonly ContractTest[] = [
  {
    title: 'read gives what was written',
    check: async (backend) => {
      for (const length of [0, 1, 3, 4, 64, 1000, 65_537]) {
        const buffer = backend.alloc(length);
        equal(buffer.byteLength, length);
        backend.write(buffer, ramp(length));
        equal(plain(await backend.read(buffer)), ramp(length));
        backend.free(buffer);
      }
    },
  },
  {
    title: 'read fills memory that it is given, inside of other memory and shared memory, too',
    check: async (backend) => {
      for (const memory of [new ArrayBuffer(80), new SharedArrayBuffer(80)]) {
        const target = new Uint8Array(memory, 5, 67);
        const buffer = backend.alloc(67);
        backend.write(buffer, ramp(67));
        equal(await backend.read(buffer, target), target);
        equal(plain(target), ramp(67));
        equal([...new Uint8Array(memory, 0, 5), ...new Uint8Array(memory, 72)], Array(13).fill(0));
        backend.free(buffer);
      }
    },
  },
  {
    title: 'buffers do not share bytes',
    check: async (backend) => {
      const buffers = [16, 1, 40, 4].map((length) => backend.alloc(length));
      for (const [i, buffer] of buffers.entries()) {
        backend.write(buffer, new Uint8Array(buffer.byteLength).fill(i + 1));
      }
      for (const [i, buffer] of buffers.entries()) {
        equal(plain(await backend.read(buffer)), new Uint8Array(buffer.byteLength).fill(i + 1));
        backend.free(buffer);
      }
    },
  },
  {
    title: 'write takes the bytes as they are at the call',
    check: async (backend) => {
      const buffer = backend.alloc(4);
      const bytes = Uint8Array.of(1, 2, 3, 4);
      backend.write(buffer, bytes);
      bytes.fill(9);
      equal(plain(await backend.read(buffer)), Uint8Array.of(1, 2, 3, 4));
      backend.free(buffer);
    },
  },
  {
    title: 'read gives a copy',
    check: async (backend) => {
      const buffer = backend.alloc(4);
      backend.write(buffer, Uint8Array.of(1, 2, 3, 4));
      const first = await backend.read(buffer);
      first.fill(9);
      equal(plain(await backend.read(buffer)), Uint8Array.of(1, 2, 3, 4));
      backend.free(buffer);
    },
  },
  {
    title: 'a write to a part of a larger array',
    check: async (backend) => {
      const buffer = backend.alloc(4);
      backend.write(buffer, ramp(100).subarray(7, 11));
      equal(plain(await backend.read(buffer)), Uint8Array.of(7, 8, 9, 10));
      backend.free(buffer);
    },
  },
  {
    title: 'a sub-buffer shares the bytes of its parent',
    check: async (backend) => {
      const { alignment } = backend.limits;
      const parent = backend.alloc(4 * alignment);
      backend.write(parent, new Uint8Array(4 * alignment));
      const part = parent.subBuffer(alignment, 2 * alignment);
      equal(part.byteLength, 2 * alignment);
      backend.write(part, new Uint8Array(2 * alignment).fill(5));
      const inner = part.subBuffer(alignment, alignment);
      backend.write(inner, new Uint8Array(alignment).fill(6));
      const expected = [0, 5, 6, 0].flatMap((value) =>
        Array.from({ length: alignment }, () => value),
      );
      equal([...(await backend.read(parent))], expected);
      equal([...(await backend.read(part))], expected.slice(alignment, 3 * alignment));
      backend.free(parent);
    },
  },
  {
    title: 'a program reads and writes sub-buffers, and nothing beside them',
    check: async (backend) => {
      const { alignment } = backend.limits;
      const slot = Math.ceil(8 / alignment) * alignment;
      const parent = backend.alloc(4 * slot);
      backend.write(parent, new Uint8Array(4 * slot).fill(7));
      const [source, result] = [parent.subBuffer(slot, 8), parent.subBuffer(3 * slot, 8)];
      backend.write(source, toBytes(f32([2], [1, -2])));
      const executable = await negate(backend);
      await executable.run([source], [result]);
      const expected = new Uint8Array(4 * slot).fill(7);
      expected.set(toBytes(f32([2], [1, -2])), slot);
      expected.set(toBytes(f32([2], [-1, 2])), 3 * slot);
      equal(plain(await backend.read(parent)), expected);
      backend.free(parent);
      executable.dispose();
    },
  },
  {
    title: 'a sub-buffer must lie inside its parent',
    check: async (backend) => {
      const buffer = backend.alloc(64);
      throws(() => buffer.subBuffer(0, 65));
      throws(() => buffer.subBuffer(60, 8));
      throws(() => buffer.subBuffer(-4, 4));
      equal(buffer.subBuffer(64, 0).byteLength, 0);
      backend.free(buffer);
    },
  },
  {
    title: 'map gives the bytes themselves, or undefined every time',
    check: async (backend) => {
      const buffer = backend.alloc(8);
      backend.write(buffer, toBytes(f32([2], [1, 2])));
      const mapped = backend.map(buffer);
      if (mapped === undefined) {
        equal(backend.map(buffer), undefined);
      } else {
        equal(plain(mapped), toBytes(f32([2], [1, 2])));
        mapped.set(toBytes(f32([2], [3, 4])));
        equal(plain(await backend.read(buffer)), toBytes(f32([2], [3, 4])));
        const result = backend.alloc(8);
        const executable = await negate(backend);
        await executable.run([buffer], [result]);
        await backend.sync();
        const seen = backend.map(result);
        holds(seen !== undefined, 'map gives bytes of one buffer, and none of another');
        equal(plain(seen), toBytes(f32([2], [-3, -4])));
        executable.dispose();
        backend.free(result);
      }
      backend.free(buffer);
    },
  },
  {
    title: 'a thousand buffers are allocated and freed',
    check: async (backend) => {
      for (let round = 0; round < 10; round++) {
        const buffers = Array.from({ length: 100 }, (_, i) =>
          backend.alloc(1 + ((i * 7919) % 4096)),
        );
        for (const buffer of buffers.toReversed()) backend.free(buffer);
      }
      const last = backend.alloc(4);
      backend.write(last, ramp(4));
      equal(plain(await backend.read(last)), ramp(4));
      backend.free(last);
    },
  },
  {
    title: 'more memory than there is throws OutOfMemoryError, and harms nothing',
    check: async (backend) => {
      const buffer = backend.alloc(4);
      backend.write(buffer, ramp(4));
      throws(() => backend.alloc(2 ** 52), OutOfMemoryError);
      equal(plain(await backend.read(buffer)), ramp(4));
      backend.free(buffer);
    },
  },
  {
    title: 'a program in a dtype that limits.dtypes lacks is refused',
    check: async (backend) => {
      if (backend.limits.dtypes.has('i64')) return;
      const b = new ProgramBuilder();
      const program = b.build(b.op(NEG, [b.input([2], 'i64')], [2], 'i64'));
      await rejects(backend.compile(program), BackendError);
    },
  },
];

function negate(backend: Backend) {
  const b = new ProgramBuilder();
  return backend.compile(b.build(b.op(NEG, [b.input([2])], [2])));
}

function ramp(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => i % 251);
}

/**
 * Returns a copy. Backends may return a Uint8Array over shared memory, which is not deeply equal to one over unshared
 * memory.
 */
function plain(bytes: Uint8Array): Uint8Array {
  return Uint8Array.from(bytes);
}
