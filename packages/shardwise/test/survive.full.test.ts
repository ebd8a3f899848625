import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { Command, fixture } from './command.ts';
import { lossesOf } from './disturbed-run.ts';
import { printedRun, stretchesOf, survivorScript, undisturbed } from './survivals.ts';

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
  it('has the other processes go on, to the bits of a run without faults', async () => {
    const script = survivorScript(
      { steps: 60, pauseMs: 60, folder: cwd },
      '2:3:inside:kill',
      '0:6:after:kill',
    );
    const args = ['run', '--nproc', '3', '--min-nproc', '1', '--max-restarts', '1'];
    const run = new Command([...args, '--run-dir', 'out', ...script], { cwd });
    expect(await run.ended(), run.output).toBe(0);
    expect(run.stderr + run.stdout).toContain(
      'Rank 2 was lost: its process was ended by SIGKILL. 2 ranks go on after step 2.',
    );
    await expectUndisturbed(run, 60);
    const { beginnings } = printedRun(run.stdout);
    const pids = (worldSize: number, start: number): readonly number[] =>
      beginnings
        .filter((each) => each.worldSize === worldSize && each.start === start)
        .toSorted((a, b) => a.rank - b.rank)
        .map(({ pid }) => pid);
    const [first, second, third] = pids(3, 0);
    // The survivors keep their processes.
    expect(pids(2, 2)).toEqual([first, second]);
    // Rank 0 died when it had made update 6, which the other one has too.
    expect(new Set(beginnings.map(({ pid }) => pid)).size).toBe(4);
    expect(beginnings.filter(({ pid }) => pid === third)).toHaveLength(1);
  });

  it('ends as without it where fewer are left', async () => {
    const script = survivorScript({ steps: 6, pauseMs: 1, folder: cwd }, '1:3:before:kill');
    const args = ['run', '--nproc', '2', '--min-nproc', '2', '--run-dir', 'out'];
    const run = new Command([...args, ...script], { cwd });
    expect(await run.ended()).toBe(137);
    expect(run.stderr).toMatch(/^Rank 1 failed first: its process was ended by SIGKILL$/m);
  });

  it('starts all ranks again whose script calls init()', async () => {
    const args = ['run', '--nproc', '2', '--min-nproc', '1', '--max-restarts', '1'];
    const script = [fixture('elastic.ts'), '8', '1', '1:5:kill', '1'];
    const run = new Command([...args, '--run-dir', 'out', ...script], { cwd });
    expect(await run.ended(), run.output).toBe(0);
    expect(run.stderr).toContain('Starting again (restart 1 of 1) with 2 ranks from ');
    expect(run.stdout).toContain('after step 4');
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
