import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
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
