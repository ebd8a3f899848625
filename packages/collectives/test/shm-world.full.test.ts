import { spawn, spawnSync } from 'node:child_process';
import { closeSync, fstatSync, openSync } from 'node:fs';
import { createInterface } from 'node:readline';
import {
  abortShmWorld,
  closeShmWorld,
  createShmWorld,
  joinShmWorld,
  shmAvailability,
  type ShmWorld,
} from '@shardwise/collectives/node';
import { ConfigError } from '@shardwise/core/spec';
import type { RankOutcome } from '@shardwise/testing';
import { memoryLimits } from '@shardwise/wasm-assembler';
import { afterEach, describe, expect, it } from 'vitest';
import { ProcessPool } from './process-pool.ts';

const PAGE_BYTES = 65536;
const faultsUrl = new URL('./shm-faults.ts', import.meta.url);
const CONDITION = '--conditions=@shardwise/source';

const worlds: ShmWorld[] = [];
const pool = new ProcessPool();

function makeWorld(size: number, arenaBytes: number = PAGE_BYTES): ShmWorld {
  const world = createShmWorld({ size, arenaBytes });
  worlds.push(world);
  return world;
}

function errorOf(outcome: RankOutcome | undefined): unknown {
  return outcome?.status === 'rejected' ? outcome.error.report : outcome;
}

async function wait(timeMs: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, timeMs));
}

afterEach(() => {
  for (const world of worlds.splice(0)) closeShmWorld(world);
});

describe.skipIf(!shmAvailability().available)('a world of processes', () => {
  it('is plain data that a variable of the environment can hold', () => {
    const world = makeWorld(2, 1);
    expect(JSON.parse(JSON.stringify(world))).toEqual(world);
    expect(world).toMatchObject({ size: 2, arenaBytes: PAGE_BYTES, pid: process.pid });
  });

  it('takes what suits the machine by default, of which nothing is used', () => {
    const world = createShmWorld({ size: 2 });
    worlds.push(world);
    const { size, blocks } = fstatSync(world.fd);
    expect(size).toBeGreaterThan(memoryLimits().defaultBytes - 4 * PAGE_BYTES);
    expect(blocks * 512).toBeLessThan(2 ** 20);
  });

  it.each([
    { size: 0 },
    { size: 1.5 },
    { size: 65 },
    { size: 2, arenaBytes: 0 },
    { size: 2, arenaBytes: 2 ** 34 },
  ])('of %j is refused', (options) => {
    expect(() => createShmWorld(options)).toThrow(ConfigError);
  });

  it('is seen by each rank at its own address, with regions that are apart', async () => {
    const world = makeWorld(2);
    const [first, second] = [joinShmWorld(world, 0), joinShmWorld(world, 1)];
    const view = ({ memory }: typeof first, { region }: typeof first): Uint8Array =>
      new Uint8Array(memory.buffer, region.byteOffset, region.byteLength);
    view(first, first).fill(1);
    view(second, second).fill(2);
    expect(first.memory.buffer).not.toBe(second.memory.buffer);
    expect(new Set(view(second, first))).toEqual(new Set([1]));
    expect(new Set(view(first, second))).toEqual(new Set([2]));
    const values = [Float32Array.of(1, 2), Float32Array.of(3, 4)];
    await Promise.all(
      [first, second].map(({ group }, rank) =>
        group.allReduce({ bytes: new Uint8Array(values[rank]!.buffer), dtype: 'f32' }, 'sum'),
      ),
    );
    expect(values).toEqual([Float32Array.of(4, 6), Float32Array.of(4, 6)]);
    first.group.close();
    second.group.close();
  });

  it('is joined once by each rank', () => {
    const world = makeWorld(2);
    const { group } = joinShmWorld(world, 1);
    expect(() => joinShmWorld(world, 1)).toThrow(
      new RegExp(`as rank 1: process ${process.pid} has joined as this rank already`),
    );
    group.close();
    expect(() => joinShmWorld(world, 1)).toThrow(/another process has joined as this rank already/);
    expect(() => joinShmWorld(world, 2)).toThrow(/ranks of the group are 0 to 1/);
  });

  it('can be joined by nobody after it has been closed, and goes on for those who have', async () => {
    const world = createShmWorld({ size: 1, arenaBytes: 1 });
    const { group } = joinShmWorld(world, 0);
    closeShmWorld(world);
    await group.barrier();
    group.close();
    expect(() => joinShmWorld(world, 0)).toThrow(/fd\/\d+ is /);
    expect(() => abortShmWorld(world, { rank: 0, reason: 'late' })).toThrow(ConfigError);
  });

  it('is not taken for another file that has its descriptor', () => {
    const fd = openSync('/dev/null', 'r+');
    expect(() => joinShmWorld({ ...makeWorld(1), fd }, 0)).toThrow(/is \/dev\/null/);
    closeSync(fd);
    const other = makeWorld(1);
    expect(() => joinShmWorld({ ...makeWorld(1), fd: other.fd }, 0)).toThrow(other.id);
  });

  it('is refused where it does not say how large it is, before any page is touched', () => {
    const world = makeWorld(2);
    const larger = { ...world, arenaBytes: 2 * PAGE_BYTES };
    expect(() => joinShmWorld(larger, 0)).toThrow(/bytes, not of \d+/);
  });

  it.each([
    { id: '../../mem' },
    { size: 1e9 },
    { arenaBytes: 1 },
    { pid: -1 },
    { fd: 0.5 },
    { more: true },
  ])('is refused with %j', (change) => {
    expect(() => joinShmWorld({ ...makeWorld(1), ...change }, 0)).toThrow(ConfigError);
  });

  it('is closed only where it was made', () => {
    expect(() => closeShmWorld({ ...makeWorld(1), pid: 1 })).toThrow(/process 1 has made it/);
  });
});

describe.skipIf(!shmAvailability().available)('processes of a world', () => {
  afterEach(() => pool.end());

  it('learn which rank was killed while they waited for it', async () => {
    const ranks = pool.run(3, faultsUrl, { name: 'killRank1', world: makeWorld(3) });
    const { pid } = pool.process(1);
    const [first, , third] = await ranks;
    for (const [rank, outcome] of [first, third].entries()) {
      expect(errorOf(outcome)).toMatchObject({
        code: 'COLLECTIVE_ABORTED',
        fields: {
          operation: 'barrier',
          sequence: 1,
          rank: 2 * rank,
          abortedBy: 1,
          reason: `its process ${pid} ended without closing the group`,
        },
      });
    }
  });

  it('learn which rank was killed in the middle of its calls', async () => {
    const world = makeWorld(2, 1 << 20);
    const [, second] = await pool.run(2, faultsUrl, { name: 'killRank0AtWork', world });
    expect(errorOf(second)).toMatchObject({
      code: 'COLLECTIVE_ABORTED',
      fields: { operation: 'allReduce', abortedBy: 0 },
    });
  });

  it('learn from the launcher which rank was killed before it joined', async () => {
    const world = makeWorld(2);
    const [first] = await pool.run(2, faultsUrl, {
      name: 'killRank1Early',
      world,
      onFailure: (rank, error) => abortShmWorld(world, { rank, reason: error }),
    });
    expect(errorOf(first)).toMatchObject({
      code: 'COLLECTIVE_ABORTED',
      message: expect.stringMatching(/rank 1 of the world .*ended with SIGKILL/),
    });
  });

  it('learn which rank ended without a word', async () => {
    const world = makeWorld(2);
    const [first] = await pool.run(2, faultsUrl, { name: 'exitWithoutClosing', world });
    expect(errorOf(first)).toMatchObject({
      message: expect.stringMatching(/rank 1 of the world ended the group \(its process \d+ ended/),
    });
  });

  it('go on without a rank that has closed its groups', async () => {
    const outcomes = await pool.run(3, faultsUrl, { name: 'leaveOthers', world: makeWorld(3) });
    expect(outcomes.slice(0, 2)).toEqual([
      { status: 'fulfilled', value: [2] },
      { status: 'fulfilled', value: [2] },
    ]);
  });

  it('learn by their timeout which rank is stopped', async () => {
    const [first] = await pool.run(2, faultsUrl, {
      name: 'stopRank1',
      world: makeWorld(2),
      onFailure: () => pool.process(1).kill('SIGKILL'),
    });
    expect(errorOf(first)).toMatchObject({
      code: 'COLLECTIVE_TIMEOUT',
      message: expect.stringContaining('after 500 ms rank 1 has not arrived'),
    });
  });

  it('are woken when the launcher ends their world', async () => {
    const world = makeWorld(2);
    const ranks = pool.run(2, faultsUrl, { name: 'waitAlone', world });
    await wait(700);
    abortShmWorld(world, { rank: 1, reason: 'it ended with code 7' });
    const [first] = await ranks;
    expect(errorOf(first)).toMatchObject({
      code: 'COLLECTIVE_ABORTED',
      fields: { abortedBy: 1, reason: 'it ended with code 7' },
    });
  });

  it('sleep while they wait', async () => {
    const [first] = await pool.run(2, faultsUrl, { name: 'costOfWaiting', world: makeWorld(2) });
    expect(first?.status === 'fulfilled' ? first.value : undefined).toBeLessThan(300);
  });

  it('end when their launcher is killed', async () => {
    let waiting = 0;
    const launcherUrl = new URL('./shm-launcher.ts', import.meta.url);
    const launcher = spawn(process.execPath, [CONDITION, launcherUrl.pathname], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines: string[] = [];
    // The loop ends only when the ranks have ended too.
    for await (const line of createInterface(launcher.stdout)) {
      if (line !== 'waiting') lines.push(line);
      else if ((waiting += 1) === 2) launcher.kill('SIGKILL');
    }
    expect(lines).toHaveLength(2);
    for (const line of lines) {
      expect(line).toContain(`the launcher ended the group (its process ${launcher.pid} ended)`);
    }
  });
});

describe('sharing memory between processes where it is not available', () => {
  const askUrl = JSON.stringify(new URL('../src/node.ts', import.meta.url));

  function answerAfter(preparation: string): unknown {
    const script = `${preparation}\nconst { shmAvailability } = await import(${askUrl});
      console.log(JSON.stringify(shmAvailability()));`;
    const { stdout } = spawnSync(
      process.execPath,
      [CONDITION, '--input-type=module', '--eval', script],
      { encoding: 'utf8' },
    );
    return JSON.parse(stdout);
  }

  it('is refused without koffi, which the reason names', () => {
    const withoutKoffi = `import { registerHooks } from 'node:module';
      registerHooks({ resolve(name, context, next) {
        if (name === 'koffi') throw new Error("Cannot find module 'koffi'");
        return next(name, context);
      } });`;
    expect(answerAfter(withoutKoffi)).toEqual({
      available: false,
      reason:
        "Memory that processes share: the package koffi can't be loaded (Cannot find module 'koffi'). Install koffi, or use another transport",
    });
  });

  it('is refused on other systems than Linux, with the reason', () => {
    const elsewhere = `Object.defineProperty(process, 'platform', { value: 'darwin' });`;
    expect(answerAfter(elsewhere)).toMatchObject({
      available: false,
      reason: expect.stringContaining('this is darwin'),
    });
  });
});
