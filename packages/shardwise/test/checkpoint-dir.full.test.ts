import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { s3Folder } from '@shardwise/core/node';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { type S3Server, startS3 } from '../../../test/support/s3-server.ts';
import { loadCheckpoint } from '../src/checkpoint/load/load-checkpoint.ts';
import { Command, fixture } from './command.ts';

const place = 's3://training/runs/1';
const train = fixture('train.ts');

let server: S3Server;
let cwd = '';
beforeEach(async () => {
  server = await startS3();
  for (const [name, value] of Object.entries(server.environment)) vi.stubEnv(name, value);
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-checkpoint-dir-'));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await server[Symbol.asyncDispose]();
  await rm(cwd, { recursive: true });
});

async function run(
  ...args: readonly string[]
): Promise<Command & { readonly code: number | null }> {
  const command = new Command(['run', '--nproc', '2', '--no-report', ...args], { cwd });
  return Object.assign(command, { code: await command.ended() });
}

const names = async (): Promise<readonly string[]> => {
  const entries = await s3Folder(place).list('');
  return [...new Set(entries.map(({ name }) => name.split('/')[0] ?? ''))].toSorted();
};

it('context.saveCheckpoint saves to a bucket, and --resume latest continues from there', async () => {
  const first = await run('--run-dir', 'first', '--checkpoint-dir', place, train, '3');
  expect(first.code, first.output).toBe(0);
  expect(first.stdout).toContain(`Checkpoint: ${place}/step-000003`);
  expect(await readdir(join(cwd, 'first'))).toEqual([
    'checkpoint-directory',
    'live.json',
    'logs',
    'metrics.jsonl',
  ]);
  expect(await names()).toEqual(['latest', 'step-000003']);

  const second = await run('--checkpoint-dir', place, '--resume', 'latest', train, '5');
  expect(second.code, second.output).toBe(0);
  expect(second.stdout).toContain('continuing after step 3 with weight 9');
  expect(await names()).toEqual(['latest', 'step-000003', 'step-000005']);

  // The run directory has noted where its checkpoints are, and an older one may be named.
  const third = await run('--resume', 'latest', train, '6');
  expect(third.stdout, third.output).toContain('continuing after step 5 with weight 15');
  const older = await run(
    '--checkpoint-dir',
    place,
    '--resume',
    `${place}/step-000003`,
    train,
    '4',
  );
  expect(older.stdout, older.output).toContain('continuing after step 3 with weight 9');
  expect((await loadCheckpoint(place)).step).toBe(4);
});

it('ranks that start again continue from the latest checkpoint of the bucket, and not from that of a failed save', async () => {
  let saves = 0;
  server.fault = ({ method, path }) => {
    // The index of the checkpoint of step 4 is never written.
    const isLost = method === 'PUT' && path.endsWith('step-000004/state.json') && saves++ < 1;
    return isLost ? 403 : undefined;
  };
  const args = ['--max-restarts', '1', '--checkpoint-dir', place];
  const command = await run(...args, fixture('elastic.ts'), '6', '1');
  expect(command.code, command.output).toBe(0);
  expect(command.stdout).toMatch(/restart 1, after step 2/);
  expect(command.output).toMatch(
    /restarts? .*step-000002|from s3:\/\/training\/runs\/1\/step-000002/,
  );
  expect((await loadCheckpoint(place)).step).toBe(6);
});

it('a run does not save among the checkpoints of another one', async () => {
  await run('--checkpoint-dir', 'saved', train, '2');
  expect(existsSync(join(cwd, 'saved', 'step-000002', 'state.json'))).toBe(true);
  const other = await run('--checkpoint-dir', 'saved', train, '2');
  expect(other.code).toBe(2);
  expect(other.stderr).toMatch(
    /^Saving checkpoints to \S+saved: those of another run, such as \S+step-000002\. Continue that run with --resume latest/,
  );
  expect(await readdir(join(cwd, 'runs'))).toHaveLength(1);
});

it.each([
  [
    ['--run-dir', place],
    /^The run directory s3:\/\/training\/runs\/1: an address.*--checkpoint-dir/,
  ],
  [['--checkpoint-dir', 'https://example.com/run'], /a place that can only be read/],
  [['--checkpoint-dir', 'gs://training/run'], /a scheme that is not known here/],
])('refuses %j', async (args, message) => {
  const command = await run(...args, train, '1');
  expect(command.code).toBe(2);
  expect(command.stderr).toMatch(message);
  expect(await readdir(cwd)).toEqual([]);
});
