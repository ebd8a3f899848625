import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Command, fixture } from './command.ts';
import { childrenOf, randomNumbers } from './disturbed-run.ts';
import { type DivisionName, divisions } from './fixtures/survive-training.ts';
import {
  expectBits,
  lastStepOf,
  latestMembers,
  printedRun,
  stretchesOf,
  survivorScript,
} from './survivals.ts';

const PAUSE_MS = 100;

/** Has ranks of a run killed at random moments, and expects the bits of one without faults. */
async function survivesKills(division: DivisionName, ranks: number, kills: number): Promise<void> {
  const cwd = await mkdtemp(join(tmpdir(), 'shardwise-survive-'));
  const { replicaSize } = divisions[division];
  const script = survivorScript({ steps: 1_000_000, pauseMs: PAUSE_MS, folder: cwd, division });
  const args = ['run', '--nproc', String(ranks), '--min-nproc', '1'];
  const options = ['--max-restarts', String(kills + 5), '--run-dir', 'out'];
  const run = new Command([...args, ...options, ...script], { cwd });
  const random = randomNumbers(kills);
  const killed = new Set<number>();
  const lastStep = (): number => lastStepOf(run);
  await run.says(/^step 2/m);
  while (killed.size < kills) {
    await sleep(random() * 2000);
    // Half of the kills wait until all ranks have come back.
    const least = random() < 0.5 ? ranks : 1;
    while (latestMembers(printedRun(run.stdout)).length < least) await sleep(50);
    // Most kills wait until the ranks train again. The others come while they join each other.
    const before = lastStep();
    const steps = random() < 0.7 ? 1 + Math.floor(random() * 5) : 0;
    while (lastStep() < before + steps) await sleep(10);
    // Ranks that start are killed, too, and sometimes two at once. One that has the state is left of each part.
    const living = (await childrenOf(run.pid)).filter((pid) => !killed.has(pid));
    const count = random() < 0.25 ? 2 : 1;
    const first = Math.floor(random() * living.length);
    const chosen = Array.from(
      { length: count },
      (_, i) => living[(first + i) % living.length] ?? 0,
    );
    const left = latestMembers(printedRun(run.stdout)).filter(
      ({ pid }) => living.includes(pid) && !chosen.includes(pid),
    );
    const parts = new Set(left.map(({ rank }) => rank % replicaSize));
    if (parts.size < replicaSize) continue;
    for (const pid of chosen) {
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
  const pids = new Set(found.beginnings.map(({ pid }) => pid));
  console.log(
    `${division}: ${total} steps, ${stretches.length} stretches of ranks that stayed the same, ${pids.size} processes`,
  );
  // Only those that were killed were started again.
  expect(pids.size).toBeLessThanOrEqual(ranks + killed.size);
  await expectBits(found, stretches, join(cwd, 'out', 'metrics.jsonl'), division);
}

describe('--min-nproc', { timeout: 3_600_000 }, () => {
  it.each([
    ['ddp', 4, 24],
    ['hsdp', 6, 12],
    ['stages', 4, 8],
  ] as const)(
    'leaves the bits of a run of %s on %d ranks without faults after %d kills at random moments',
    survivesKills,
  );

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
