import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fixture, type Command } from './command.ts';

const PAUSE_MS = 20;
/** More steps than a generation can make before its ranks are killed. */
const STEPS_PER_KILL = 30;
/**
 * The latest moment of a kill, in milliseconds after a start. Ranks need about half of that before their first step.
 */
const LATEST_MS = 1000;
const MAX_SPARE_RESTARTS = 5;

/** Returns the script whose ranks are killed, and its arguments. */
export function scriptFor(kills: number, pauseMs: number = PAUSE_MS): readonly string[] {
  return [fixture('elastic.ts'), String(STEPS_PER_KILL * kills), String(pauseMs)];
}

/** Returns the options of `shardwise run` for a run that survives this many kills. */
export function restartOptions(kills: number): readonly string[] {
  return ['--ranks', 'processes', '--max-restarts', String(kills + MAX_SPARE_RESTARTS)];
}

/** Kills one rank after another while they start, work and save. The hosts belong to one run. */
export async function disturb(hosts: readonly Command[], kills: number): Promise<void> {
  const [first] = hosts;
  const random = randomNumbers(kills);
  for (let kill = 1; kill <= kills; kill += 1) {
    await sleep(random() * LATEST_MS);
    while (!(await killOne(hosts, random()))) await sleep(PAUSE_MS);
    await first?.says(new RegExp(`\\(restart ${kill} of `));
  }
}

/** Returns the losses of a run by step. If a step was done twice, the later line counts. */
export async function lossesOf(metricsPath: string): Promise<ReadonlyMap<number, number>> {
  const lines = (await readFile(metricsPath, 'utf8')).trim().split('\n');
  return new Map(lines.map((line) => JSON.parse(line)).map(({ step, loss }) => [step, loss]));
}

/** Kills the rank that `choice`, in [0, 1), picks. Returns false if no rank was killed. */
async function killOne(hosts: readonly Command[], choice: number): Promise<boolean> {
  const ranks = (await Promise.all(hosts.map(({ pid }) => childrenOf(pid)))).flat();
  const pid = ranks[Math.floor(choice * ranks.length)];
  if (pid === undefined) return false;
  try {
    process.kill(pid, 'SIGKILL');
    return true;
  } catch {
    // The process has ended in the meantime.
    return false;
  }
}

/**
 * Returns the child processes of a process. Only the launcher's main thread starts processes. Source: proc_pid_task(5).
 */
export async function childrenOf(pid: number): Promise<readonly number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return text.split(' ').filter(Boolean).map(Number);
}

/** Returns a generator of numbers in [0, 1) that depend only on the seed. Source: mulberry32 of Tommy Ettinger. */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
