import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fixture, type Command } from './command.ts';

const PAUSE_MS = 20;
/** More than a round can come to before its ranks are killed. */
const STEPS_PER_KILL = 30;
/** Of the moment of a kill, after a start; ranks need about half of it before their first step. */
const LATEST_MS = 1000;
const MAX_SPARE_RESTARTS = 5;

/** The script that is disturbed, and its arguments. */
export function scriptFor(kills: number, pauseMs: number = PAUSE_MS): readonly string[] {
  return [fixture('elastic.ts'), String(STEPS_PER_KILL * kills), String(pauseMs)];
}

/** Of `shardwise run`, for a run that outlives so many kills. */
export function restartOptions(kills: number): readonly string[] {
  return ['--ranks', 'processes', '--max-restarts', String(kills + MAX_SPARE_RESTARTS)];
}

/** Kills one rank after the other while they start, work and save; the hosts are of one run. */
export async function disturb(hosts: readonly Command[], kills: number): Promise<void> {
  const [first] = hosts;
  const random = randomNumbers(kills);
  for (let kill = 1; kill <= kills; kill += 1) {
    await sleep(random() * LATEST_MS);
    while (!(await killOne(hosts, random()))) await sleep(PAUSE_MS);
    await first?.says(new RegExp(`\\(restart ${kill} of `));
  }
}

/** The losses of a run by step; of a step that was done twice the later line counts. */
export async function lossesOf(metricsPath: string): Promise<ReadonlyMap<number, number>> {
  const lines = (await readFile(metricsPath, 'utf8')).trim().split('\n');
  return new Map(lines.map((line) => JSON.parse(line)).map(({ step, loss }) => [step, loss]));
}

/** `choice` in [0, 1). False where there is no rank at the moment. */
async function killOne(hosts: readonly Command[], choice: number): Promise<boolean> {
  const ranks = (await Promise.all(hosts.map(({ pid }) => childrenOf(pid)))).flat();
  const pid = ranks[Math.floor(choice * ranks.length)];
  if (pid === undefined) return false;
  try {
    process.kill(pid, 'SIGKILL');
    return true;
  } catch {
    // It has ended in the meantime.
    return false;
  }
}

/** Source: proc_pid_task(5); only the launcher's main thread starts processes. */
async function childrenOf(pid: number): Promise<readonly number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return text.split(' ').filter(Boolean).map(Number);
}

/** In [0, 1), the same ones for the same seed. Source: mulberry32 of Tommy Ettinger. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
