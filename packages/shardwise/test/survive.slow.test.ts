import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Command, fixture } from './command.ts';
import { childrenOf, lossesOf, randomNumbers } from './disturbed-run.ts';
import { lastStepOf, printedRun, stretchesOf, survivorScript, undisturbed } from './survivals.ts';

const KILLS = 24;
const RANKS = 4;
const PAUSE_MS = 100;

describe('--min-nproc', { timeout: 3_600_000 }, () => {
  it(`leaves the bits of a run without faults after ${KILLS} kills at random moments`, async () => {
    const cwd = await mkdtemp(join(tmpdir(), 'shardwise-survive-'));
    const script = survivorScript({ steps: 1_000_000, pauseMs: PAUSE_MS, folder: cwd });
    const args = ['run', '--nproc', String(RANKS), '--min-nproc', '1'];
    const options = ['--max-restarts', String(KILLS + 5), '--run-dir', 'out'];
    const run = new Command([...args, ...options, ...script], { cwd });
    const random = randomNumbers(KILLS);
    const killed = new Set<number>();
    const lastStep = (): number => lastStepOf(run);
    await run.says(/^step 2/m);
    while (killed.size < KILLS) {
      await sleep(random() * 2000);
      // Most kills wait until the ranks train again. The others come while they join each other.
      const before = lastStep();
      const steps = random() < 0.7 ? 1 + Math.floor(random() * 5) : 0;
      while (lastStep() < before + steps) await sleep(10);
      // Ranks that start are killed, too, and sometimes two at once. One that has the state is left.
      const living = (await childrenOf(run.pid)).filter((pid) => !killed.has(pid));
      const begun = new Set(printedRun(run.stdout).beginnings.map(({ pid }) => pid));
      const count = random() < 0.25 ? 2 : 1;
      if (living.filter((pid) => begun.has(pid)).length <= count) continue;
      const first = Math.floor(random() * living.length);
      for (let index = first; index < first + count; index += 1) {
        const pid = living[index % living.length];
        if (pid === undefined) continue;
        process.kill(pid, 'SIGKILL');
        killed.add(pid);
      }
    }
    const before = lastStep();
    while (lastStep() < before + 5) await sleep(50);
    run.kill('SIGINT');
    expect(await run.ended(), run.output).toBe(130);
    expect(run.output).not.toContain('Starting again');
    const found = printedRun(run.stdout);
    const total = lastStep();
    const stretches = stretchesOf(found, total);
    console.log(`${total} steps in ${stretches.length} stretches of ranks that stayed the same`);
    const calm = await undisturbed(stretches);
    for (const { step, loss } of found.steps) {
      expect(loss, `step ${step}`).toBe(calm.losses[step - 1]);
    }
    expect(found.ends.length).toBeGreaterThan(0);
    for (const { values } of found.ends) expect(values).toEqual(calm.values);
    const reported = await lossesOf(join(cwd, 'out', 'metrics.jsonl'));
    expect([...reported.values()]).toEqual(calm.losses);
  });

  it('starts all ranks again whose script calls init()', async () => {
    const cwd = await mkdtemp(join(tmpdir(), 'shardwise-survive-'));
    const args = ['run', '--nproc', '2', '--min-nproc', '1', '--max-restarts', '1'];
    const script = [fixture('elastic.ts'), '8', '1', '1:5:kill', '1'];
    const run = new Command([...args, '--run-dir', 'out', ...script], { cwd });
    expect(await run.ended(), run.output).toBe(0);
    expect(run.stderr).toContain('Starting again (restart 1 of 1) with 2 ranks from ');
    expect(run.stdout).toContain('after step 4');
  });
});
