import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runShardwise } from '../../../test/support/run-shardwise.ts';

let cwd = '';

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-servers-'));
});

afterEach(() => rm(cwd, { recursive: true, force: true }));

describe('what is killed at step 5 of 40', () => {
  const faults = join(import.meta.dirname, 'fixtures', 'parameter-server-faults.ts');
  const losses = (stdout: string): readonly number[] =>
    [...stdout.matchAll(/ends with loss (.*)/g)].map(([, loss]) => Number(loss));

  it('is a server: its copy takes over, and the run goes on', async () => {
    const options = ['--nproc', '2', '--servers', '2', '--server-replicas', '2', '--plain'];
    const ended = await runShardwise(['run', ...options, faults, 'server'], { cwd });
    expect(ended.exitCode, ended.output).toBe(0);
    expect(ended.output).toContain('Parameter server 0 was lost, and starts again');
    expect(losses(ended.stdout)).toHaveLength(2);
    for (const loss of losses(ended.stdout)) expect(loss).toBeLessThan(0.1);
  });

  it('is a server without a copy or a snapshot: the run fails, and says why', async () => {
    const options = ['--nproc', '2', '--servers', '1', '--plain'];
    const ended = await runShardwise(['run', ...options, faults, 'server'], { cwd });
    expect(ended.exitCode, ended.output).not.toBe(0);
    expect(ended.output).toContain('neither a replica nor a snapshot');
  });

  it('is a server without a copy: the run goes on from its snapshot', async () => {
    const options = ['--nproc', '2', '--servers', '1', '--server-snapshots', '0', '--plain'];
    const ended = await runShardwise(['run', ...options, faults, 'server'], { cwd });
    expect(ended.exitCode, ended.output).toBe(0);
    expect(ended.output).toContain('Parameter server 0 was lost, and starts again');
    expect(losses(ended.stdout)).toHaveLength(2);
    for (const loss of losses(ended.stdout)) expect(loss).toBeLessThan(0.1);
  });

  it('is all of the run: another one goes on from the snapshots', async () => {
    const options = ['--nproc', '2', '--servers', '2', '--server-snapshots', '0', '--plain'];
    const killed = [...options, '--run-dir', 'killed', faults, 'run'];
    const ended = await runShardwise(['run', ...killed], { cwd });
    expect(ended.exitCode, ended.output).not.toBe(0);
    expect(losses(ended.stdout)).toEqual([]);
    const again = [...options, '--run-dir', 'again', '--resume', 'killed', faults];
    const resumed = await runShardwise(['run', ...again], { cwd });
    expect(resumed.exitCode, resumed.output).toBe(0);
    expect(resumed.stdout.match(/begins with trained values/g)).toHaveLength(2);
    for (const loss of losses(resumed.stdout)) expect(loss).toBeLessThan(0.1);
  });

  it('is a worker: it starts again with what the servers have', async () => {
    const options = [
      '--nproc',
      '2',
      '--ranks',
      'processes',
      '--servers',
      '1',
      '--max-restarts',
      '1',
    ];
    const args = ['run', ...options, '--plain', faults, 'worker'];
    const ended = await runShardwise(args, { cwd });
    expect(ended.exitCode, ended.output).toBe(0);
    const begun = [...ended.stdout.matchAll(/rank 0 begins (.*)/g)].map(([, how]) => how);
    expect(begun).toEqual(['anew', 'with trained values']);
    for (const loss of losses(ended.stdout)) expect(loss).toBeLessThan(0.1);
  });
});

it('a table of 4 GiB trains with workers of 512 MB', async () => {
  const script = join(import.meta.dirname, 'fixtures', 'large-table.ts');
  const options = ['--nproc', '2', '--ranks', 'processes', '--servers', '2', '--plain'];
  const ended = await runShardwise(['run', ...options, script], { cwd });
  expect(ended.exitCode, ended.output).toBe(0);
  const found = [...ended.stdout.matchAll(/found (\d+) wrong, with (\d+) MB/g)];
  expect(found).toHaveLength(2);
  for (const [, wrong, memoryMb] of found) {
    expect(Number(wrong)).toBe(0);
    expect(Number(memoryMb)).toBeLessThan(512);
  }
});
