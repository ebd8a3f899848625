import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { runShardwise } from '../../../test/support/run-shardwise.ts';

const script = join(import.meta.dirname, 'fixtures', 'device.ts');
let cwd = '';

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-device-'));
});

afterEach(() => rm(cwd, { recursive: true, force: true }));

it('ranks compute where --device says', async () => {
  const options = ['--nproc', '2', '--device', 'wasm', '--plain', '--no-report'];
  const ended = await runShardwise(['run', ...options, script], { cwd });
  expect(ended.exitCode, ended.output).toBe(0);
  expect(ended.output).toContain('rank 0 on wasm: 6');
  expect(ended.output).toContain('rank 1 on wasm: 6');
});

it('a device that there is not is an error of the command line', async () => {
  const ended = await runShardwise(['run', '--device', 'cuda', script], { cwd });
  expect(ended.exitCode).toBe(2);
  expect(ended.output).toContain('It must be cpu or wasm or webgpu');
});
