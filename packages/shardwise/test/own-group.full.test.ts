import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, it } from 'vitest';
import { commandVariables } from '../../../test/support/shardwise-command.ts';
import { Command, fixture } from './command.ts';

let cwd = '';
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-own-group-'));
});

const script = fixture('own-group.ts');

describe("init with the script's own group", () => {
  it('has the ranks, the files and the display of the run that it is part of', async () => {
    const run = new Command(['run', '--nproc', '3', '--run-dir', 'out', script], { cwd });
    expect(await run.ended(), run.output).toBe(0);
    expect(run.stdout).toContain("rank 0 of 3, local 0, own: 3 ranks of the script's own group");
    expect(run.stdout).toContain("rank 2 of 3, local 2, own: 3 ranks of the script's own group");
    expect(run.stdout).toMatch(/^step 3\/3 {2}loss 0\.3333 {2}sum 54 /m);
    expect(run.stdout).toContain(`rank 2 has 54 in ${join(cwd, 'out')}`);
    expect(run.stdout).toContain(`Checkpoint: ${join('out', 'checkpoints', 'step-000003')}`);
    const report = await readFile(join(cwd, 'out', 'report.html'), 'utf8');
    expect(report).toContain('<td><code>3 ranks of the script&#39;s own group');
    expect(report).toContain('<h2>sum</h2>');
  });

  it('releases the others from their calls when a rank fails, which is named', async () => {
    const run = new Command(['run', '--nproc', '3', script, 'fail'], { cwd });
    expect(await run.ended()).toBe(1);
    expect(run.stderr).toMatch(/^Rank 1 failed first: RangeError: rank 1 gives up$/m);
    expect(run.stderr).toMatch(/^Rank 0: CollectiveAbortedError: .*rank 1/m);
    expect(run.stderr).toMatch(/^Rank 2: CollectiveAbortedError: .*rank 1/m);
  });

  it('has the time limit that init is given', async () => {
    const run = new Command(['run', '--nproc', '2', script, 'late'], { cwd });
    expect(await run.ended()).toBe(1);
    expect(run.stderr).toMatch(
      /^Rank 0 failed first: CollectiveTimeoutError: allReduce #\d+ .*after 2000 ms rank 1 has not arrived/m,
    );
  });

  it('is refused where its ranks are not those of the run', async () => {
    const run = new Command(['run', '--nproc', '2', script, 'wrong'], { cwd });
    expect(await run.ended()).toBe(1);
    expect(run.stderr).toMatch(
      /^Rank \d failed first: ConfigError: init with a group in which this is rank \d of 3: shardwise run has started it as rank \d of 2\. Make/m,
    );
  });

  it('needs no launcher: rank 0 prints the steps, and all use one run directory', async () => {
    const node = promisify(execFile);
    const { stdout } = await node(process.execPath, [script, '2'], {
      cwd,
      env: commandVariables(),
    });
    expect(stdout).toMatch(/^transport: own \(2 ranks of the script's own group\)$/m);
    expect(stdout.match(/^step 3\/3 {2}loss 0\.3333 {2}sum 12 /gm)).toHaveLength(1);
    const [, folder = ''] = /rank 1 has 12 in (.*)$/m.exec(stdout) ?? [];
    expect(stdout).toContain(`rank 0 has 12 in ${folder}`);
    expect(await readdir(join(folder, 'checkpoints'))).toContain('step-000003');
  });
});
