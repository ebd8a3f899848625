import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { webgpu } from '@shardwise/backend-webgpu';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Command, fixture } from './command.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(
  `ranks on a GPU${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    let cwd = '';
    beforeAll(async () => {
      cwd = await mkdtemp(join(tmpdir(), 'shardwise-lost-device-'));
    });
    afterAll(() => rm(cwd, { recursive: true, force: true }));

    it('start again from the checkpoint where one has lost its device, each with a device of its own', async () => {
      const args = ['run', '--nproc', '2', '--device', 'webgpu', '--max-restarts', '1'];
      const run = new Command([...args, '--run-dir', 'out', fixture('lost-device.ts')], { cwd });
      expect(await run.ended(), run.output).toBe(0);
      expect(run.stderr).toMatch(/Rank 1 failed: BackendError: .*the device was lost/);
      expect(run.stderr).toContain('Starting again (restart 1 of 1) with 2 ranks');
      expect(run.stdout).toContain('rank 1 on webgpu begins after step 0');
      expect(run.stdout).toContain('rank 1 on webgpu begins after step 4');
      const ends = [...run.stdout.matchAll(/rank (\d) ends with (.*)$/gm)];
      expect(new Set(ends.map(([, rank]) => rank))).toEqual(new Set(['0', '1']));
      expect(new Set(ends.map(([, , weights]) => weights)).size).toBe(1);
    }, 120_000);
  },
);
