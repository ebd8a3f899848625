import { execFile } from 'node:child_process';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { readCluster } from '@shardwise/planner';
import { beforeEach, describe, expect, it } from 'vitest';
import { runShardwise } from '../../../test/support/run-shardwise.ts';
import { commandVariables } from '../../../test/support/shardwise-command.ts';
import { fixture } from './command.ts';

const script = fixture('profiled.ts');

describe('shardwise profile', () => {
  let cwd = '';
  beforeEach(async () => {
    cwd = await mkdtemp(join(tmpdir(), 'shardwise-profile-'));
  });

  it('records the steps on all ranks, shows them, and ends the run', async () => {
    const { exitCode, stdout, stderr } = await runShardwise(
      ['profile', '--nproc', '2', '--steps', '3-4', '--run-dir', 'run', script, '100000'],
      { cwd },
    );
    expect(stderr).toBe('');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^Profile of steps 3 to 4 on 2 ranks: /m);
    expect(stdout).toMatch(/^ {2}rank 1: kernels \d/m);
    expect(stdout).toMatch(/^ {2}matmul +backward +3 /m);
    expect(stdout).toMatch(/^ {2}Sequential\.2 /m);
    expect(stdout).toMatch(/^Profile: +run\/profile\.html$/m);
    expect(stdout).not.toContain('trained to the end');
    const page = await readFile(join(cwd, 'run', 'profile.html'), 'utf8');
    expect(page).toContain('Profile of steps 3 to 4 on 2 ranks');
    expect(page).toContain('What to do first');
  });

  it('fails if the steps never come, and says which ones did', async () => {
    const { exitCode, stderr } = await runShardwise(['profile', '--steps', '7-9', script, '3'], {
      cwd,
    });
    expect(stderr).toContain(
      'nothing was profiled. It was to be steps 7 to 9, but the script has reported steps 1 to 3',
    );
    expect(exitCode).toBe(1);
    const wrong = await runShardwise(['profile', '--steps', '9-7', script], { cwd });
    expect(wrong.stderr).toMatch(/It must be FIRST-LAST, such as 10-12/);
    expect(wrong.exitCode).toBe(2);
  });

  it('is not needed: a script may ask itself, and trains on', async () => {
    const { exitCode, stdout, stderr } = await runShardwise(
      ['run', '--nproc', '2', '--run-dir', 'run', script, '6', '3'],
      { cwd },
    );
    expect(exitCode).toBe(0);
    expect(stdout).toContain('trained to the end');
    expect(stderr).toContain('Profile: run/profile.html');
    const report = await readFile(join(cwd, 'run', 'report.html'), 'utf8');
    expect(report).toMatch(/Time in products<\/th><td><code>\d.* % of steps 2 to 3/);
    expect(report).toContain('utilization');
    // The trace of the run has all that a plan needs to know of this machine.
    const measured = await runShardwise(['measure', 'c.json', '--trace', 'run/trace.json'], {
      cwd,
    });
    expect(measured.stderr).toBe('');
    const cluster = readCluster(JSON.parse(await readFile(join(cwd, 'c.json'), 'utf8')));
    expect(cluster).toMatchObject({ hosts: 1, devicesPerHost: 2, source: 'a trace of a run' });
    expect(cluster.device.flops.f32).toBeGreaterThan(0);
    expect(cluster.links.inside.bytesPerSecond).toBeGreaterThan(0);
  });

  it('is not needed without launcher either: the script prints the profile', async () => {
    const { stderr } = await promisify(execFile)(process.execPath, [script, '6', '3'], {
      cwd,
      env: commandVariables(),
    });
    expect(stderr).toMatch(/^Profile of steps 2 to 3 on rank 0: /m);
    const [, path = ''] = /^Profile: (.*profile\.html)$/m.exec(stderr) ?? [];
    expect(await readFile(join(cwd, path), 'utf8')).toContain('Roofline');
  });
});
