import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runShardwise } from '../../../test/support/run-shardwise.ts';

const script = join(import.meta.dirname, 'fixtures', 'parameter-server.ts');
let cwd = '';

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-servers-'));
});

afterEach(() => rm(cwd, { recursive: true, force: true }));

it('ranks train on servers, which are no ranks', async () => {
  const options = ['--nproc', '3', '--servers', '2', '--run-dir', 'out', '--plain'];
  const ended = await runShardwise(['run', ...options, script], { cwd });
  expect(ended.exitCode, ended.output).toBe(0);
  const weights = [...ended.stdout.matchAll(/rank \d of 3 has (.*)/g)].map(([, values]) => values);
  expect(weights).toHaveLength(3);
  expect(new Set(weights).size).toBe(1);
  const report = await readFile(join(cwd, 'out', 'report.html'), 'utf8');
  expect(report).toContain('Updates of a server');
  expect(report).toContain('0: 120');
  const metrics = await readFile(join(cwd, 'out', 'metrics.jsonl'), 'utf8');
  expect(metrics).toMatch(/"sentBytes":[1-9].*"receivedBytes":[1-9]/);
});

it('a strategy on servers in a run without them is an error that says how to start them', async () => {
  const ended = await runShardwise(['run', '--plain', script], { cwd });
  expect(ended.exitCode).not.toBe(0);
  expect(ended.output).toContain('shardwise run --servers 1');
});

it('servers of a run on several hosts are refused', async () => {
  const options = ['--nnodes', '2', '--rdzv', '127.0.0.1:29511', '--node-rank', '0'];
  const variables = { SHARDWISE_SECRET: 'a secret of the test' };
  const args = ['run', '--servers', '1', ...options, script];
  const ended = await runShardwise(args, { cwd, variables });
  expect(ended.exitCode).toBe(2);
  expect(ended.output).toContain('--servers 1 in a run on several hosts');
});

it('servers of a run that has ended go on in another one, with other workers', async () => {
  const faults = join(import.meta.dirname, 'fixtures', 'parameter-server-faults.ts');
  const train = async (nproc: number, servers: number, ...more: readonly string[]) => {
    const counts = ['--nproc', String(nproc), '--servers', String(servers)];
    return runShardwise(['run', ...counts, ...more, '--plain', faults], { cwd });
  };
  const first = await train(1, 2, '--run-dir', 'first');
  expect(first.exitCode, first.output).toBe(0);
  expect(first.stdout).toContain('rank 0 begins anew');
  const second = await train(2, 2, '--run-dir', 'second', '--resume', 'first');
  expect(second.exitCode, second.output).toBe(0);
  expect(second.output).toContain('Parameter servers go on from their snapshots in first');
  for (const rank of [0, 1]) {
    expect(second.stdout).toContain(`rank ${rank} begins with trained values`);
  }
  const other = await train(2, 1, '--run-dir', 'third', '--resume', 'second');
  expect(other.exitCode).toBe(2);
  expect(other.output).toMatch(/what 2 servers have left.*Give --servers 2/s);
});

describe('workers that come and go one by one', () => {
  const faults = join(import.meta.dirname, 'fixtures', 'parameter-server-faults.ts');
  const train = (restarts: number, what: string) => {
    const options = ['--nproc', '2', '--servers', '1', '--worker-restarts', String(restarts)];
    return runShardwise(['run', ...options, '--plain', faults, what], { cwd });
  };
  const begun = (stdout: string, rank: number): readonly (string | undefined)[] =>
    [...stdout.matchAll(new RegExp(`rank ${rank} begins (.*)`, 'g'))].map(([, how]) => how);

  it('cost their batch where they are killed: they join the servers again, and the others go on', async () => {
    const ended = await train(1, 'lone-worker');
    expect(ended.exitCode, ended.output).toBe(0);
    expect(ended.output).toContain('Worker 0 starts again, and the others go on');
    expect(begun(ended.stdout, 0)).toEqual(['anew', 'with trained values']);
    expect(begun(ended.stdout, 1)).toHaveLength(1);
    const losses = [...ended.stdout.matchAll(/ends with loss (.*)/g)].map(([, loss]) =>
      Number(loss),
    );
    expect(losses).toHaveLength(2);
    for (const loss of losses) expect(loss).toBeLessThan(0.1);
  });

  it('let the others end where they do not come again, and the run fails', async () => {
    const ended = await train(0, 'lone-worker');
    expect(ended.exitCode, ended.output).not.toBe(0);
    expect(ended.output).toMatch(/Rank 0 failed.*SIGKILL/s);
    expect(ended.stdout).toMatch(/rank 1 ends with loss/);
    expect(begun(ended.stdout, 0)).toEqual(['anew']);
  });

  it('begin when they are there: nobody waits for who comes later', async () => {
    const ended = await train(0, 'nobody-waits');
    expect(ended.exitCode, ended.output).toBe(0);
    expect(begun(ended.stdout, 0)).toEqual(['anew']);
    expect(begun(ended.stdout, 1)).toEqual(['with trained values']);
  });

  it.each([
    [['--worker-restarts', '1'], /without parameter servers.*--servers 1/s],
    [
      ['--servers', '1', '--worker-restarts', '1', '--ranks', 'threads'],
      /threads, which end each other/,
    ],
  ])('are refused as %j', async (options, message) => {
    const ended = await runShardwise(['run', ...options, '--plain', script], { cwd });
    expect(ended.exitCode).toBe(2);
    expect(ended.output).toMatch(message);
  });
});
