import { equal } from '../../suite/assertions.ts';
import type { Backend, Executable } from '@shardwise/core/spec';
import type { ContractTest } from './contract-test.ts';
import { download, toBytes, upload } from './device.ts';
import { f32 } from './host-value.ts';
import { ProgramBuilder } from './program-builder.ts';

const VECTOR = { shape: [2], dtype: 'f32' } as const;

/** Tests that calls take effect in the order in which they are made, even if they are not awaited. */
export const orderTests: readonly ContractTest[] = [
  {
    title: 'a run that is not awaited comes before a read',
    check: async (backend) => {
      const increment = await plusOne(backend);
      const [x, y] = [upload(backend, f32([2], [1, 2])), backend.alloc(8)];
      const run = increment.run([x], [y]);
      equal(await values(backend, y), [2, 3]);
      await run;
      release(backend, [x, y], increment);
    },
  },
  {
    title: 'a run reads what was in its inputs when it was called',
    check: async (backend) => {
      const increment = await plusOne(backend);
      const [x, y] = [upload(backend, f32([2], [1, 2])), backend.alloc(8)];
      const run = increment.run([x], [y]);
      backend.write(x, toBytes(f32([2], [100, 200])));
      await run;
      equal(await values(backend, y), [2, 3]);
      equal(await values(backend, x), [100, 200]);
      release(backend, [x, y], increment);
    },
  },
  {
    title: 'a write after a run is not overwritten by it',
    check: async (backend) => {
      const increment = await plusOne(backend);
      const [x, y] = [upload(backend, f32([2], [1, 2])), backend.alloc(8)];
      const run = increment.run([x], [y]);
      backend.write(y, toBytes(f32([2], [7, 8])));
      await run;
      await backend.sync();
      equal(await values(backend, y), [7, 8]);
      release(backend, [x, y], increment);
    },
  },
  {
    title: 'runs that are not awaited see the results of the earlier ones',
    check: async (backend) => {
      const increment = await plusOne(backend);
      const buffers = [upload(backend, f32([2], [0, 10]))];
      const runs: Promise<void>[] = [];
      for (let i = 0; i < 20; i++) {
        const [from] = buffers.slice(-1);
        const to = backend.alloc(8);
        if (from) runs.push(increment.run([from], [to]));
        buffers.push(to);
      }
      await Promise.all(runs);
      const seen = await Promise.all(buffers.map((buffer) => values(backend, buffer)));
      equal(
        seen,
        buffers.map((_, i) => [i, 10 + i]),
      );
      release(backend, buffers, increment);
    },
  },
  {
    title: 'a read that is not awaited sees the bytes of its time',
    check: async (backend) => {
      const increment = await plusOne(backend, true);
      const x = upload(backend, f32([2], [0, 10]));
      const reads = [values(backend, x)];
      const runs: Promise<void>[] = [];
      for (let i = 0; i < 5; i++) {
        runs.push(increment.run([x], []));
        reads.push(values(backend, x));
      }
      await Promise.all(runs);
      equal(
        await Promise.all(reads),
        [0, 1, 2, 3, 4, 5].map((i) => [i, 10 + i]),
      );
      release(backend, [x], increment);
    },
  },
  {
    title: 'a buffer that is freed while a run is pending stays whole until the run is done',
    check: async (backend) => {
      const increment = await plusOne(backend);
      const [x, y] = [upload(backend, f32([2], [1, 2])), backend.alloc(8)];
      const run = increment.run([x], [y]);
      backend.free(x);
      const other = upload(backend, f32([2], [100, 200]));
      await run;
      equal(await values(backend, y), [2, 3]);
      equal(await values(backend, other), [100, 200]);
      release(backend, [y, other], increment);
    },
  },
  {
    title: 'sync settles after everything that was enqueued',
    check: async (backend) => {
      const increment = await plusOne(backend, true);
      const x = upload(backend, f32([2], [0, 0]));
      let settled = 0;
      const runs = [1, 2, 3].map(async () => {
        await increment.run([x], []);
        settled++;
      });
      await backend.sync();
      equal(await values(backend, x), [3, 3]);
      await Promise.all(runs);
      equal(settled, 3);
      release(backend, [x], increment);
    },
  },
  {
    title: 'programs that are compiled at the same time do not mix',
    check: async (backend) => {
      const compiled = await Promise.all([
        plusOne(backend),
        plusOne(backend, true),
        plusOne(backend),
      ]);
      const [x, y, z] = [f32([2], 0), f32([2], 10), f32([2], 20)].map((v) => upload(backend, v));
      const [first, second, third] = compiled;
      const result = backend.alloc(8);
      if (x && y && z) {
        await Promise.all([
          first.run([x], [result]),
          second.run([y], []),
          third.run([result], [z]),
        ]);
        const seen = await Promise.all([x, y, z, result].map((buffer) => values(backend, buffer)));
        equal(seen, [
          [0, 0],
          [11, 11],
          [2, 2],
          [1, 1],
        ]);
        release(backend, [x, y, z, result], ...compiled);
      }
    },
  },
  {
    title: 'a program runs on one set of buffers after another',
    check: async (backend) => {
      const increment = await plusOne(backend);
      for (let i = 0; i < 10; i++) {
        const [x, y] = [upload(backend, f32([2], [i, -i])), backend.alloc(8)];
        await increment.run([x], [y]);
        equal(await values(backend, y), [i + 1, 1 - i]);
        release(backend, [x, y]);
      }
      increment.dispose();
    },
  },
  {
    title: '300 runs in place count to 300',
    check: async (backend) => {
      const increment = await plusOne(backend, true);
      const x = upload(backend, f32([2], [0, -300]));
      for (let i = 0; i < 300; i++) await increment.run([x], []);
      equal(await values(backend, x), [300, 0]);
      release(backend, [x], increment);
    },
  },
];

/**
 * Tests that 300 runs leave as many bytes in use as the first one. It needs a backend that can tell its bytes in use.
 */
export function flatMemoryTest<B extends Backend>(
  bytesInUse: (backend: B) => number,
): ContractTest<B> {
  return {
    title: '300 runs keep no memory, and dispose and free give all of it back',
    check: async (backend) => {
      const before = bytesInUse(backend);
      const increment = await plusOne(backend);
      const [x, y] = [upload(backend, f32([2], [1, 2])), backend.alloc(8)];
      await increment.run([x], [y]);
      await backend.read(y);
      const after = bytesInUse(backend);
      for (let i = 0; i < 300; i++) {
        await increment.run([x], [y]);
        await backend.read(y);
      }
      equal(bytesInUse(backend), after);
      release(backend, [x, y], increment);
      await backend.sync();
      equal(bytesInUse(backend), before);
    },
  };
}

/** Compiles x + 1, with the result in the output or in place. Shape: x [2] -> [2]. */
function plusOne(backend: Backend, inPlace = false): Promise<Executable> {
  const b = new ProgramBuilder();
  const x = b.input([2]);
  const one = b.op({ op: 'constant', params: { value: 1, ...VECTOR } }, [], [2]);
  const y = b.op({ op: 'add', params: {} }, [x, one], [2]);
  return backend.compile(inPlace ? b.update(x, y).build() : b.build(y));
}

async function values(backend: Backend, buffer: Parameters<Backend['read']>[0]): Promise<number[]> {
  return [...(await download(backend, buffer, VECTOR)).values];
}

function release(
  backend: Backend,
  buffers: readonly Parameters<Backend['free']>[0][],
  ...executables: readonly Executable[]
): void {
  for (const buffer of buffers) backend.free(buffer);
  for (const executable of executables) executable.dispose();
}
