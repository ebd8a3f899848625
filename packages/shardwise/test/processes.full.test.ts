import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  createGroup,
  createLoopbackTransports,
  hostedTransport,
  joinThreadsWorld,
} from '@shardwise/collectives';
import { MemoryStore, startStoreServer, tcpTransport } from '@shardwise/collectives/node';
import { ConfigError } from '@shardwise/core';
import { beforeEach, describe, expect, it } from 'vitest';
import { describeError } from '../src/text/describe-error.ts';
import { launch } from '../src/launcher/launch.ts';
import { decodeError, encodeError } from '../src/launcher/processes/error-data.ts';
import { chooseTransport } from '../src/launcher/transports/transport-choice.ts';
import { createRankTransport } from '../src/launcher/transports/create-rank-transport.ts';
import { abortReason } from '../src/rank/launched-host.ts';
import type { Generation } from '../src/rendezvous/generation.ts';
import { Command, fixture } from './command.ts';
import { generationOf } from './generation-of.ts';

let cwd = '';
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-processes-'));
});

const elastic = fixture('elastic.ts');
const isLinux = process.platform === 'linux';

async function lossesOf(directory: string): Promise<readonly unknown[]> {
  const text = await readFile(join(cwd, directory, 'metrics.jsonl'), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).loss);
}

/** Returns the processes that still run. Zombies do not count. */
async function living(pids: readonly number[]): Promise<readonly number[]> {
  const states = await Promise.all(
    pids.map(async (pid) => readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '() Z')),
  );
  return pids.filter((_, index) => !/\) [ZX]/.test(states[index] ?? ''));
}

describe('ranks that are processes', () => {
  it('train as threads do, bit for bit', async () => {
    const runs = ['threads', 'processes'].map(
      (form) =>
        new Command(['run', '--nproc', '2', '--ranks', form, '--run-dir', form, elastic, '7'], {
          cwd,
        }),
    );
    for (const run of runs) expect(await run.ended(), run.output).toBe(0);
    const [threads, processes] = runs.map(({ stdout }) => stdout);
    expect(threads).toMatch(/^transport: threads \(2 threads of one process\)$/m);
    expect(processes).toMatch(/^transport: shm \(2 processes of one host\)$/m);
    expect(processes).toMatch(/rank 1 of 2, node 0, local 1, shm/);
    expect(await lossesOf('processes')).toEqual(await lossesOf('threads'));
  });

  it('meet over tcp where memory cannot be shared', async () => {
    const generation = generationOf(2, cwd);
    const shm = () => ({ available: false, reason: 'there is none' }) as const;
    const transport = await createRankTransport(generation, 'processes', { shm });
    expect(transport.choice).toEqual({
      kind: 'tcp',
      reason: '2 processes of one host, no shared memory: there is none',
    });
    const lines: string[] = [];
    const { outcomes } = await launch({
      script: elastic,
      args: ['4'],
      form: 'processes',
      generation,
      runId: 'tcp',
      maxRestarts: 0,
      environment: process.env,
      transport,
      stop: new AbortController().signal,
      signal: new AbortController().signal,
      onMessage: () => undefined,
      onLine: (_, line) => lines.push(line),
    });
    transport.close();
    expect(
      outcomes.map(({ exitCode }) => exitCode),
      lines.join('\n'),
    ).toEqual([0, 0]);
    expect(lines.filter((line) => line.includes(', tcp, '))).toHaveLength(2);
  });

  it('stop after one step at Ctrl-C', async () => {
    const run = new Command(
      ['run', '--nproc', '2', '--ranks', 'processes', '--run-dir', 'out', elastic, '100000', '5'],
      { cwd },
    );
    await run.says(/^step 1\//m);
    run.kill('SIGINT');
    expect(await run.ended(), run.output).toBe(130);
    const ends = [...run.stdout.matchAll(/rank \d ends with (.*)$/gm)].map(([, value]) => value);
    expect(ends).toHaveLength(2);
    expect(new Set(ends).size).toBe(1);
    expect(run.stdout).toMatch(/^Continue: .*--ranks processes --resume out\/checkpoints\/step-/m);
  });

  it('are named by the signal that ended one, and the others are released', async () => {
    const run = new Command(
      ['run', '--nproc', '3', '--ranks', 'processes', elastic, '9', '1', '1:3:kill'],
      { cwd },
    );
    expect(await run.ended()).toBe(137);
    expect(run.stderr).toMatch(/^Rank 1 failed first: its process was ended by SIGKILL$/m);
    for (const rank of [0, 2]) {
      expect(run.stderr).toMatch(
        new RegExp(`^Rank ${rank}: CollectiveAbortedError: .*rank 1`, 'm'),
      );
    }
  });

  it('that throw are shown with their own stack, once', async () => {
    const run = new Command(
      ['run', '--nproc', '2', '--ranks', 'processes', elastic, '9', '1', '1:3:throw'],
      { cwd },
    );
    expect(await run.ended()).toBe(1);
    expect(run.stderr).toMatch(
      /^Rank 1 failed first: RangeError: planned at step 3\n {4}at .*elastic/m,
    );
    expect(run.output.match(/RangeError: planned at step 3\n/g)).toHaveLength(1);
  });

  it.skipIf(!isLinux)(
    'are named where one is stopped, and do not wait for it for ever',
    async () => {
      const run = new Command(
        ['run', '--nproc', '2', '--ranks', 'processes', elastic, '100000', '5'],
        { cwd },
      );
      const [, pid] = await run.says(/rank 1 of 2, .* pid (\d+)/);
      await run.says(/^step 1\//m);
      process.kill(Number(pid), 'SIGSTOP');
      expect(await run.ended()).toBe(137);
      expect(run.stderr).toMatch(
        /^Rank 1 failed first: its process was stopped for 1500 ms, so it was ended$/m,
      );
      expect(run.stderr).toMatch(/^Rank 0: CollectiveAbortedError: .*rank 1/m);
    },
  );

  it.skipIf(!isLinux)('end with their launcher, also where they are blocked', async () => {
    const run = new Command(['run', '--nproc', '2', '--ranks', 'processes', fixture('stuck.ts')], {
      cwd,
    });
    await run.says(/pid \d+\.[^]*pid \d+\./);
    const pids = [...run.stdout.matchAll(/pid (\d+)\./g)].map(([, pid]) => Number(pid));
    expect(await living(pids)).toEqual(pids);
    run.kill('SIGKILL');
    await run.ended();
    await expect.poll(() => living(pids)).toEqual([]);
  });
});

describe('an error that a process tells its launcher', () => {
  it('keeps its name, its stack, its causes, and what ShardwiseError has', () => {
    const cause = new RangeError('too far');
    const error = new ConfigError(
      { asked: 'A', found: 'B', todo: 'C' },
      { rank: 3, names: ['x'], hidden: { deep: 1 } },
      { cause },
    );
    const decoded = decodeError(structuredClone(encodeError(error)));
    expect(describeError(decoded)).toBe('ConfigError: A: B. C');
    expect(decoded).toMatchObject({
      stack: error.stack,
      code: 'CONFIG',
      fields: { rank: 3, names: ['x'] },
      isShardwiseError: true,
      cause: { name: 'RangeError', message: 'too far' },
    });
  });

  it('may be anything that can be thrown', () => {
    expect(decodeError(encodeError('only a text'))).toBe('only a text');
    expect(decodeError(encodeError(undefined))).toBe('undefined');
    const circle = new Error('circular');
    circle.cause = circle;
    expect(describeError(decodeError(encodeError(circle)))).toBe('Error: circular');
  });

  it('is undefined for data that no rank sends', () => {
    expect(decodeError({ name: 'Error' })).toBeUndefined();
    expect(decodeError({ name: 'E', message: 'm'.repeat(10_000), stack: '' })).toBeUndefined();
  });
});

describe('the end of a generation on a host of several', () => {
  it.each([
    [3, 'rank 3 of the world ended the group (it broke)'],
    [0, 'rank 0 of the world ended the group (it broke)'],
  ])('names rank %i by its number in the world', async (culprit, expected) => {
    const store = new MemoryStore();
    const secret = 'a secret of this test';
    const host = { id: 'a', name: 'a', address: '127.0.0.1', ranks: 2 };
    const server = await startStoreServer({ secret });
    const generation: Generation = {
      ...generationOf(2, cwd),
      nodes: [host, { ...host, id: 'b', name: 'b' }],
      nodeRank: 1,
      store: { host: server.host, port: server.port, secret },
    };
    const transport = await createRankTransport(generation, 'threads');
    if (transport.way.kind !== 'hosted' || transport.way.local.kind !== 'threads') {
      throw new Error(`hosts of two threads talk by ${transport.way.kind}`);
    }
    const { hosts, local } = transport.way;
    const remotes = await Promise.all(
      hosts.map((_, rank) => tcpTransport({ store, rank, size: hosts.length, secret })),
    );
    const world = joinThreadsWorld(local.world, 0);
    const [, , remote] = remotes;
    if (remote === undefined) throw new Error('rank 2 has not joined');
    const group = createGroup(hostedTransport({ local: world, remote, hosts }), { hosts });
    const barrier = group.barrier();
    transport.abort(culprit, 'it broke');
    await expect(barrier).rejects.toThrow(expected);
    for (const end of remotes) end.close();
    transport.close();
    server.close();
  });
});

describe('the word of a launcher that the group is over', () => {
  it('names the rank that failed, not the one that is told', async () => {
    const [, second] = createLoopbackTransports(2).map((transport) => createGroup(transport));
    second?.close(abortReason({ rank: 0, reason: 'it broke' }));
    await expect(second?.barrier()).rejects.toThrow(
      'rank 0 of the world ended the group (it broke)',
    );
  });

  it('names the launcher where no rank failed', async () => {
    const [, second] = createLoopbackTransports(2).map((transport) => createGroup(transport));
    second?.close(abortReason({ rank: undefined, reason: 'host-b joined' }));
    await expect(second?.barrier()).rejects.toThrow('the launcher ended the group (host-b joined)');
  });
});

describe('the choice of a transport', () => {
  const available = { available: true } as const;
  const without = { available: false, reason: 'no koffi' } as const;
  it.each([
    ['threads', [2], available, 'threads', '2 threads of one process'],
    ['threads', [2], without, 'threads', '2 threads of one process'],
    ['processes', [1], available, 'shm', '1 process of one host'],
    ['processes', [4], without, 'tcp', '4 processes of one host, no shared memory: no koffi'],
    ['processes', [1, 1], available, 'tcp', '2 processes, one on each of 2 hosts'],
    ['processes', [2, 1], available, 'hosted', '3 processes of 2 hosts'],
    ['processes', [2, 2], without, 'tcp', '4 processes of 2 hosts, no shared memory: no koffi'],
    ['threads', [2, 2], without, 'hosted', '4 threads of 2 hosts'],
  ] as const)('for %s, %j per host, is %j', (form, ranksPerHost, shm, kind, reason) => {
    expect(chooseTransport({ form, ranksPerHost, shm: () => shm })).toEqual({ kind, reason });
  });
});
