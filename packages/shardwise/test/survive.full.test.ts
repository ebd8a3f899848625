import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { repository } from '../../../test/support/documents.ts';
import { runCommand } from '../../../test/support/run-command.ts';
import { Command, fixture } from './command.ts';
import type { DivisionName } from './fixtures/survive-training.ts';
import {
  expectBits,
  lastStepOf,
  mostRepeatedSteps,
  printedRun,
  stretchesOf,
  survivorScript,
} from './survivals.ts';

const example = join(repository, 'apps/docs/examples/terminal/survive.ts');
let cwd = '';
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-survive-'));
});

/** Expects that a run had the losses and the parameters of one without faults and with the same numbers of ranks. */
async function expectUndisturbed(
  run: Command,
  total: number,
  division?: DivisionName,
): Promise<void> {
  const found = printedRun(run.stdout);
  await expectBits(found, stretchesOf(found, total), join(cwd, 'out', 'metrics.jsonl'), division);
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

  it.each([
    ['ddp', '1:3:inside:cut'],
    ['ddp', '0:4:after:cut'],
    ['hsdp', '2:3:inside:cut'],
  ] as const)(
    'has the ranks of %s connect again, in their processes, when a connection of two of them breaks (%s)',
    async (division, fault) => {
      const script = survivorScript({ steps: 8, pauseMs: 1, folder: cwd, division }, fault);
      const args = ['run', '--nproc', '4', '--min-nproc', '4', '--run-dir', 'out'];
      const run = new Command([...args, ...script], { cwd });
      expect(await run.ended(), run.output).toBe(0);
      expect(run.output).toMatch(
        /Rank \d has not ended, but could not be reached: .*\. 4 ranks go on after step \d\./,
      );
      const found = printedRun(run.stdout);
      expect(new Set(found.beginnings.map(({ pid }) => pid)).size).toBe(4);
      expect(found.beginnings.map(({ worldSize }) => worldSize)).toEqual(Array(8).fill(4));
      expect(mostRepeatedSteps(found)).toBeLessThanOrEqual(1);
      await expectUndisturbed(run, 8, division);
    },
  );

  it('goes on without a rank whose connections break again and again', async () => {
    // One of two ranks is not reached in three of five breaks.
    const faults = [2, 3, 4, 5, 6].map((step) => `0:${step}:inside:cut`);
    const script = survivorScript({ steps: 9, pauseMs: 1, folder: cwd }, ...faults);
    const args = ['run', '--nproc', '2', '--min-nproc', '1', '--run-dir', 'out'];
    const run = new Command([...args, ...script], { cwd });
    expect(await run.ended(), run.output).toBe(0);
    expect(run.output).toMatch(
      /Rank \d was lost: others could not reach it 3 times in ten minutes, .* 1 rank goes on/,
    );
    expect(mostRepeatedSteps(printedRun(run.stdout))).toBeLessThanOrEqual(1);
    await expectUndisturbed(run, 9);
  });

  it('has a replica of FSDP go on when a rank of another is lost, and another one come', async () => {
    const script = survivorScript(
      { steps: 1_000_000, pauseMs: 30, folder: cwd, division: 'hsdp' },
      '3:3:inside:kill',
    );
    const args = ['run', '--nproc', '4', '--min-nproc', '2', '--max-restarts', '1'];
    const run = new Command([...args, '--run-dir', 'out', ...script], { cwd });
    await run.says(/Rank 3 came in the place of lost ones/);
    const reached = lastStepOf(run);
    while (lastStepOf(run) < reached + 3) await sleep(20);
    run.kill('SIGINT');
    expect(await run.ended(), run.output).toBe(130);
    expect(run.output).toMatch(
      /Rank 3 was lost: .* 2 ranks go on after step 2\. Rank 2 waits for the rest of a replica\./,
    );
    await expectUndisturbed(run, lastStepOf(run), 'hsdp');
    const { beginnings } = printedRun(run.stdout);
    // The others train meanwhile, in the processes of the start, as the one that waits does later.
    expect(beginnings.map(({ worldSize }) => worldSize)).toEqual([4, 4, 4, 4, 2, 2, 4, 4, 4, 4]);
    expect(new Set(beginnings.map(({ pid }) => pid)).size).toBe(5);
  });

  it('makes one replica of two stages of what is left of two, also after the update', async () => {
    const script = survivorScript(
      { steps: 6, pauseMs: 1, folder: cwd, division: 'stages' },
      '0:3:after:kill',
      '3:3:after:kill',
    );
    const args = ['run', '--nproc', '4', '--min-nproc', '2', '--run-dir', 'out'];
    const run = new Command([...args, ...script], { cwd });
    expect(await run.ended(), run.output).toBe(0);
    await expectUndisturbed(run, 6, 'stages');
    const { beginnings, steps } = printedRun(run.stdout);
    expect(steps.at(-1)).toMatchObject({ step: 6, worldSize: 2 });
    expect(new Set(beginnings.map(({ pid }) => pid)).size).toBe(4);
  });

  it('ends ranks that say different sizes of a replica', async () => {
    const args = ['run', '--nproc', '2', '--ranks', 'threads', '--min-nproc', '1'];
    const script = fixture('replica-sizes.ts');
    const run = new Command([...args, '--run-dir', 'out', script], { cwd });
    expect(await run.ended(), run.output).toBe(1);
    expect(run.output).toMatch(/survive\(\) with replicaSize: [12].*another rank with [12]/s);
  });

  it('starts all ranks again if a part of the state is lost', async () => {
    const script = survivorScript(
      { steps: 4, pauseMs: 1, folder: cwd, division: 'hsdp' },
      '1:3:before:kill',
    );
    const args = ['run', '--nproc', '2', '--min-nproc', '1', '--max-restarts', '1'];
    const run = new Command([...args, '--run-dir', 'out', ...script], { cwd });
    expect(await run.ended(), run.output).toBe(0);
    expect(run.output).toContain('The ranks that are left make up 0 replicas of 2 ranks');
    expect(run.output).toContain('Starting again (restart 1 of 1) with 2 ranks');
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
