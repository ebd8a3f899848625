import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Command } from './command.ts';
import { childrenOf, lossesOf, randomNumbers } from './disturbed-run.ts';
import { printedRun, stretchesOf, survivorScript, undisturbed } from './survivals.ts';

const KILLS = 24;
const RANKS = 4;
const PAUSE_MS = 100;

describe('ranks that are killed at random moments', { timeout: 3_600_000 }, () => {
  it(`${KILLS} times leave the bits of a run without`, async () => {
    const cwd = await mkdtemp(join(tmpdir(), 'shardwise-survive-'));
    const script = survivorScript({ steps: 1_000_000, pauseMs: PAUSE_MS, folder: cwd });
    const args = ['run', '--nproc', String(RANKS), '--min-nproc', '1'];
    const options = ['--max-restarts', String(KILLS), '--run-dir', 'out'];
    const run = new Command([...args, ...options, ...script], { cwd });
    const random = randomNumbers(KILLS);
    /** The processes, and those among them that have had the state. */
    const processes = async (): Promise<{ readonly all: readonly number[]; readonly trained: number }> => {
      const all = await childrenOf(run.pid);
      const begun = new Set(printedRun(run.stdout).beginnings.map(({ pid }) => pid));
      return { all, trained: all.filter((pid) => begun.has(pid)).length };
    };
    let kills = 0;
    while (kills < KILLS) {
      await sleep(random() * 3000);
      // Ranks that start are killed, too, and sometimes two at once. One that has the state is left.
      const { all, trained } = await processes();
      const count = random() < 0.25 ? 2 : 1;
      if (trained <= count) continue;
      const first = Math.floor(random() * all.length);
      for (let index = first; index < first + count && kills < KILLS; index += 1) {
        process.kill(all[index % all.length] ?? 0, 'SIGKILL');
        kills += 1;
      }
    }
    await sleep(3000);
    run.kill('SIGINT');
    expect(await run.ended(), run.output).toBe(130);
    expect(run.output).not.toContain('Starting again');
    const found = printedRun(run.stdout);
    const total = Math.max(...found.steps.map(({ step }) => step));
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
});
