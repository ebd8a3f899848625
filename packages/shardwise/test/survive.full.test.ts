import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { repository } from '../../../test/support/documents.ts';
import { runCommand } from '../../../test/support/run-command.ts';
import { Command } from './command.ts';
import { lossesOf } from './disturbed-run.ts';
import { lastStepOf, printedRun, stretchesOf, survivorScript, undisturbed } from './survivals.ts';

const example = join(repository, 'apps/docs/examples/terminal/survive.ts');
let cwd = '';
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-survive-'));
});

/** Expects that a run had the losses and the parameters of one without faults and with the same numbers of ranks. */
async function expectUndisturbed(run: Command, total: number): Promise<void> {
  const found = printedRun(run.stdout);
  const calm = await undisturbed(stretchesOf(found, total));
  for (const { step, loss } of found.steps)
    expect(loss, `step ${step}`).toBe(calm.losses[step - 1]);
  for (const { values } of found.ends) expect(values).toEqual(calm.values);
  const reported = await lossesOf(join(cwd, 'out', 'metrics.jsonl'));
  expect([...reported.values()]).toEqual(calm.losses);
}

describe('--min-nproc', { timeout: 240_000 }, () => {
  it('has the other processes go on, and another one come, to the bits of a run without faults', async () => {
    const faults = ['3:3:inside:kill', '0:6:after:kill', '1:9:before:kill'];
    const script = survivorScript({ steps: 1_000_000, pauseMs: 30, folder: cwd }, ...faults);
    const args = ['run', '--nproc', '4', '--min-nproc', '1', '--max-restarts', '1'];
    const run = new Command([...args, '--run-dir', 'out', ...script], { cwd });
    await run.says(/Rank \d came in the place of lost ones/);
    const reached = lastStepOf(run);
    while (lastStepOf(run) < Math.max(reached, 10) + 3) await sleep(20);
    run.kill('SIGINT');
    expect(await run.ended(), run.output).toBe(130);
    expect(run.output).toContain(
      'Rank 3 was lost: its process was ended by SIGKILL. 3 ranks go on after step 2.',
    );
    // Rank 0 died when it had made update 6, which the others have made, too.
    expect(run.output).toMatch(/Rank 0 was lost: .* ranks? goe?s? on after step 6\./);
    const { beginnings } = printedRun(run.stdout);
    await expectUndisturbed(run, lastStepOf(run));
    const pidsAt = (start: number, worldSize: number): readonly number[] =>
      beginnings
        .filter((each) => each.start === start && each.worldSize === worldSize)
        .toSorted((a, b) => a.rank - b.rank)
        .map(({ pid }) => pid);
    // Those who go on keep their processes, and one process has come.
    expect(pidsAt(2, 3)).toEqual(pidsAt(0, 4).slice(0, 3));
    expect(new Set(beginnings.map(({ pid }) => pid)).size).toBe(5);
  });

  it('ends as without it where fewer are left', async () => {
    const script = survivorScript({ steps: 6, pauseMs: 1, folder: cwd }, '1:3:before:kill');
    const args = ['run', '--nproc', '2', '--min-nproc', '2', '--run-dir', 'out'];
    const run = new Command([...args, ...script], { cwd });
    expect(await run.ended()).toBe(137);
    expect(run.stderr).toMatch(/^Rank 1 failed first: its process was ended by SIGKILL$/m);
  });

  it('needs no launcher: the example of the guide trains alone', async () => {
    const { exitCode, output } = await runCommand('node', [example], { cwd, fromSource: false });
    expect(exitCode, output).toBe(0);
    expect(output).toContain('step 200');
  });

  it('has threads go on after one threw, and the last one alone', async () => {
    const script = survivorScript(
      { steps: 8, pauseMs: 1, folder: cwd },
      '1:3:inside:throw',
      '0:5:before:throw',
    );
    const args = ['run', '--nproc', '3', '--ranks', 'threads', '--min-nproc', '1'];
    const run = new Command([...args, '--run-dir', 'out', ...script], { cwd });
    expect(await run.ended(), run.output).toBe(0);
    await expectUndisturbed(run, 8);
    expect(printedRun(run.stdout).steps.at(-1)).toMatchObject({ step: 8, worldSize: 1 });
  });
});
