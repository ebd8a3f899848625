import { abortThreadsWorld, createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import { ConfigError } from '@shardwise/core/spec';
import { settleRanks, spawnRanks } from '@shardwise/testing/node';
import { memoryLimits } from '@shardwise/wasm-assembler';
import * as fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Control } from '../src/shared-memory/control.ts';

const rankUrl = new URL('./threads-rank.ts', import.meta.url);
const PAGE_BYTES = 65536;

function messageOf(body: () => unknown): string {
  try {
    return `returned ${String(body())}`;
  } catch (error) {
    return String(error);
  }
}

afterEach(() => vi.restoreAllMocks());

describe('a threads world', () => {
  it('has one arena for each rank, in whole pages, apart from each other and the control block', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 16 }),
        fc.integer({ min: 1, max: 1e6 }),
        (size, bytes) => {
          const { memory, regions, controlByteOffset } = createThreadsWorld({
            size,
            arenaBytes: bytes,
          });
          expect(regions).toHaveLength(size);
          for (const [rank, { byteOffset, byteLength }] of regions.entries()) {
            expect(byteOffset % PAGE_BYTES).toBe(0);
            expect(byteLength).toBe(Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES);
            const previous = regions[rank - 1];
            const free = previous
              ? previous.byteOffset + previous.byteLength
              : controlByteOffset + 1;
            expect(byteOffset).toBeGreaterThanOrEqual(free);
            expect(byteOffset + byteLength).toBeLessThanOrEqual(memory.buffer.byteLength);
          }
        },
      ),
      { numRuns: 20 },
    );
  });

  it('takes what suits the machine by default, which costs nothing until it is used', () => {
    const { memory, regions } = createThreadsWorld({ size: 2 });
    const { defaultBytes } = memoryLimits();
    expect(memory.buffer.byteLength).toBeLessThanOrEqual(defaultBytes);
    expect(memory.buffer.byteLength).toBeGreaterThan(defaultBytes - 4 * PAGE_BYTES);
    expect(regions[0]!.byteLength).toBeGreaterThan(2 ** 30);
  });

  it('has up to 4 GiB in engines without addresses of 64 bits', () => {
    vi.spyOn(WebAssembly, 'validate').mockReturnValue(false);
    const { memory } = createThreadsWorld({ size: 2 });
    expect(memory.buffer.byteLength).toBeLessThan(2 ** 32);
    const create = (): unknown => createThreadsWorld({ size: 2, arenaBytes: 2 ** 31 });
    expect(create).toThrow(/WebAssembly has at most 4294901760 bytes here/);
  });

  it('says what limits its arenas, and how large they can be', () => {
    const { largestBytes, reason } = memoryLimits();
    const create = (): unknown => createThreadsWorld({ size: 2, arenaBytes: largestBytes });
    expect(create).toThrow(`2 arenas of ${largestBytes} bytes: ${reason}, of which the world's`);
    const most = Number(/arenaBytes of 1 to (\d+)/.exec(messageOf(create))?.[1]);
    expect(createThreadsWorld({ size: 2, arenaBytes: most }).regions[1]?.byteLength).toBe(most);
  });

  it.each([
    { size: 0 },
    { size: 1.5 },
    { size: 65 },
    { size: 2, arenaBytes: 0 },
    { size: 2, arenaBytes: 2 ** 34 },
  ])('refuses %j', (options) => {
    expect(() => createThreadsWorld(options)).toThrow(ConfigError);
  });

  it('is not joined with a memory of another world', () => {
    const world = createThreadsWorld({ size: 2, arenaBytes: PAGE_BYTES });
    expect(() => joinThreadsWorld({ ...world, size: 3 }, 0)).toThrow(/not made for that size/);
    expect(() => joinThreadsWorld(world, 2)).toThrow(ConfigError);
  });

  it('is ended from outside, for calls that are pending and calls that come', async () => {
    const world = createThreadsWorld({ size: 2, arenaBytes: PAGE_BYTES });
    const group = joinThreadsWorld(world, 0);
    const pending = group.barrier();
    abortThreadsWorld(world, { rank: undefined, reason: new Error('interrupted') });
    abortThreadsWorld(world, { rank: 1, reason: 'too late to be the cause' });
    const ended = /the launcher ended the group \(Error: interrupted\)/;
    await expect(pending).rejects.toThrow(ended);
    await expect(group.barrier()).rejects.toThrow(ended);
  });

  it('gives its core away while it waits, where ranks outnumber the cores and nowhere else', async () => {
    const cores = 2;
    vi.spyOn(navigator, 'hardwareConcurrency', 'get').mockReturnValue(cores);
    for (const size of [cores, cores + 1]) {
      const world = createThreadsWorld({ size, arenaBytes: PAGE_BYTES });
      const yieldCore = vi.fn<() => void>();
      const groups = Array.from({ length: size }, (_, rank) =>
        joinThreadsWorld(world, rank, { yieldCore }),
      );
      const [first, ...others] = groups;
      const waiting = first?.barrier();
      await Promise.resolve();
      const yields = yieldCore.mock.calls.length;
      if (size > cores) expect(yields).toBeGreaterThan(0);
      else expect(yields).toBe(0);
      await Promise.all([waiting, ...others.map((group) => group.barrier())]);
    }
  });

  it('cuts causes that are too long for the control block', async () => {
    const world = createThreadsWorld({ size: 1, arenaBytes: PAGE_BYTES });
    const group = joinThreadsWorld(world, 0);
    abortThreadsWorld(world, { rank: 0, reason: 'é'.repeat(5000) });
    await expect(group.barrier()).rejects.toThrow('é'.repeat(512));
  });

  it('wakes a rank that sleeps when the launcher ends the world', async () => {
    const world = createThreadsWorld({ size: 2, arenaBytes: PAGE_BYTES });
    const ranks = settleRanks(2, rankUrl, { name: 'waitAlone', world });
    await new Promise((resolve) => setTimeout(resolve, 500));
    abortThreadsWorld(world, { rank: 1, reason: 'it was killed' });
    const [first] = await ranks;
    expect(first?.status === 'rejected' ? first.error.report : undefined).toMatchObject({
      name: 'CollectiveAbortedError',
      code: 'COLLECTIVE_ABORTED',
      fields: { operation: 'barrier', sequence: 0, rank: 0, abortedBy: 1, reason: 'it was killed' },
    });
  });

  it('counts calls and bytes for each operation', async () => {
    const world = createThreadsWorld({ size: 2, arenaBytes: PAGE_BYTES });
    const counts = [
      ['allReduce', { calls: 2, bytes: 24 }],
      ['barrier', { calls: 1, bytes: 0 }],
    ];
    await expect(spawnRanks(2, rankUrl, { name: 'count', world })).resolves.toEqual([
      counts,
      counts,
    ]);
  });
});

describe('many ranks on one thread', () => {
  it('meet without waiting for each other, as far ahead as there are slots', async () => {
    const world = createThreadsWorld({ size: 3, arenaBytes: PAGE_BYTES });
    const groups = [0, 1, 2].map((rank) => joinThreadsWorld(world, rank));
    const calls = 200;
    const buffers = groups.map(({ rank }) =>
      Array.from({ length: calls }, (_, i) => Int32Array.of(rank + i)),
    );
    await Promise.all(
      groups.flatMap((group) =>
        buffers[group.rank]!.map((values) =>
          group.allReduce({ bytes: new Uint8Array(values.buffer), dtype: 'i32' }, 'sum'),
        ),
      ),
    );
    for (const values of buffers) {
      expect(values.map(([value]) => value)).toEqual(
        Array.from({ length: calls }, (_, i) => 3 + 3 * i),
      );
    }
  });

  it('say what each called where they disagree', async () => {
    const world = createThreadsWorld({ size: 2, arenaBytes: PAGE_BYTES });
    const [first, second] = [0, 1].map((rank) => joinThreadsWorld(world, rank));
    const buffer = { bytes: new Uint8Array(8), dtype: 'f32' } as const;
    const [one, other] = await Promise.allSettled([
      first!.allReduce(buffer, 'avg'),
      second!.broadcast(buffer, 1),
    ]);
    expect(one.status === 'rejected' ? String(one.reason) : '').toMatchInlineSnapshot(
      `"CollectiveMismatchError: Call #0 on rank 0 is allReduce(avg, f32 [2]): on rank 1 it is broadcast(root 1, f32 [2]). Make every rank call the same operations in the same order, with the same sizes and dtypes"`,
    );
    expect(other.status).toBe('rejected');
  });

  it('say so on all ranks, though the first one that notices ends the world at once', async () => {
    const world = createThreadsWorld({ size: 3, arenaBytes: PAGE_BYTES });
    const [first, second, third] = [0, 1, 2].map((rank) => joinThreadsWorld(world, rank));
    const buffer = { bytes: new Uint8Array(8), dtype: 'f32' } as const;
    const calls = [
      first!.allReduce(buffer, 'avg'),
      third!.allReduce(buffer, 'avg'),
      second!.barrier(),
    ];
    abortThreadsWorld(world, { rank: 1, reason: 'CollectiveMismatchError' });
    for (const each of await Promise.allSettled(calls)) {
      expect(each.status === 'rejected' ? String(each.reason) : '').toMatch(
        /^CollectiveMismatchError: Call #0 on ranks 0, 2 is allReduce/,
      );
    }
  });

  it('say who has not come in time', async () => {
    const world = createThreadsWorld({ size: 3, arenaBytes: PAGE_BYTES });
    const [first, second] = [0, 1].map((rank) => joinThreadsWorld(world, rank));
    const [one, other] = await Promise.allSettled([
      first!.barrier({ timeoutMs: 20 }),
      second!.barrier(),
    ]);
    expect(one.status === 'rejected' ? String(one.reason) : '').toMatchInlineSnapshot(
      `"CollectiveTimeoutError: barrier #0 on rank 0, barrier(): after 20 ms rank 2 has not arrived. Check that they run and make the same calls, or raise timeoutMs"`,
    );
    expect(other.status === 'rejected' ? String(other.reason) : '').toMatchInlineSnapshot(
      `"CollectiveAbortedError: barrier #0 on rank 1: rank 0 of the world ended the group (CollectiveTimeoutError: barrier #0 on rank 0, barrier(): after 20 ms rank 2 has not arrived. Check that they run and make the same calls, or raise timeoutMs). Look for the first failure on rank 0 of the world"`,
    );
  });

  it.each(['barrier', 'recv'] as const)(
    'hear the reason of one that ends the world and leaves, also while they look (%s)',
    async (operation) => {
      const world = createThreadsWorld({ size: 2, arenaBytes: PAGE_BYTES });
      const [first, second] = [0, 1].map((rank) => joinThreadsWorld(world, rank));
      // Rank 0 fails between two checks of rank 1: whether the world has ended, and which ranks have left.
      vi.spyOn(Control.prototype, 'abortCause').mockImplementationOnce(() => {
        first!.close(new Error('the disk is full'));
        first!.close();
        return undefined;
      });
      const buffer = { bytes: new Uint8Array(4), dtype: 'f32' } as const;
      const call = operation === 'recv' ? second!.recv(buffer, 0) : second!.barrier();
      await expect(call).rejects.toThrow(/rank 0 .*the disk is full/);
      await expect(second!.barrier()).rejects.toThrow(/rank 0 .*the disk is full/);
    },
  );

  it('run out of channels after 64 groups that stay open, and not if they are closed', async () => {
    const world = createThreadsWorld({ size: 1, arenaBytes: PAGE_BYTES });
    const group = joinThreadsWorld(world, 0);
    for (let i = 0; i < 100; i++) (await group.split(0, 0))?.close();
    for (let i = 0; i < 63; i++) await group.split(0, 0);
    await expect(group.split(0, 0)).rejects.toThrow('room for 64 groups');
  });
});
