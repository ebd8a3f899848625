import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Bench, BenchResult } from '../bench.ts';
import { countOf } from '../rounds.ts';
import { median, round } from '../summary.ts';
import { parseRankLine, type RankLine } from './rank-line.ts';

const RANKS = 4;
const KILLS = 12;
/** The steps that all ranks make before one of them is killed. */
const STEPS_BETWEEN = 5;
/** Milliseconds that a step of ranks takes at most if each pair shares a core, and by which each kill comes later in one. */
const LONGEST_STEP_MS = 150;
const SPREAD_MS = 37;

/** What a kill cost, in milliseconds since then. */
interface Cost {
  /** Until the first of the others has joined the rest, with the state. */
  readonly joinedMs: number;
  /** Until all of the others have made the next update. */
  readonly stepMs: number;
  /** Until another rank in the place of the lost one has made an update with them. */
  readonly backMs: number;
  /** How many updates the others made again. */
  readonly repeatedSteps: number;
}

/** Kills one of four ranks again and again, and measures how long the others stand still. */
export const survive: Bench = {
  about: `what a rank costs that is killed: ${RANKS} processes, ddp, 0.53 million parameters`,
  flags: { kills: { type: 'string' } },
  run: async (values) => {
    const kills = countOf(values, 'kills', KILLS);
    const directory = await mkdtemp(join(tmpdir(), 'shardwise-bench-'));
    try {
      return resultOf(await killRanks(directory, kills));
    } finally {
      await rm(directory, { recursive: true });
    }
  },
};

const folder = fileURLToPath(new URL('../../packages/shardwise/', import.meta.url));
const startedFrom = existsSync(join(folder, 'dist/bundle/index.js')) ? 'dist' : 'source';
const command =
  startedFrom === 'dist'
    ? [join(folder, 'bin/shardwise.js')]
    : ['--conditions=@shardwise/source', join(folder, 'src/cli/main.ts')];

function startRun(directory: string, kills: number): ChildProcess {
  const script = fileURLToPath(new URL('./ranks.ts', import.meta.url));
  const options = ['--nproc', String(RANKS), '--min-nproc', '1', '--max-restarts', String(kills)];
  return spawn(process.execPath, [...command, 'run', ...options, '--run-dir', 'out', script], {
    cwd: directory,
    env: { ...process.env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
}

async function killRanks(directory: string, kills: number): Promise<readonly Cost[]> {
  const child = startRun(directory, kills);
  const ended = once(child, 'close');
  if (child.stdout === null) throw new Error('the run has no output');
  const lines = rankLines(createInterface({ input: child.stdout }));
  const costs: Cost[] = [];
  for (let kill = 0; kill < kills; kill += 1) {
    const last = await pastSteps(lines);
    const victim = last.find(({ rank }) => rank === kill % RANKS);
    if (victim === undefined) throw new Error(`rank ${kill % RANKS} has said nothing`);
    // Ranks are killed in their computations, in their messages and in their commits.
    await sleep((kill * SPREAD_MS) % LONGEST_STEP_MS);
    costs.push(await costOf(lines, victim));
  }
  child.kill('SIGINT');
  // The run ends at the next step, whose lines nobody reads.
  child.stdout.resume();
  await ended;
  return costs;
}

async function* rankLines(lines: AsyncIterable<string>): Lines {
  for await (const line of lines) {
    const said = parseRankLine(line);
    if (said !== undefined) yield said;
  }
  throw new Error('the run ended before all ranks were killed');
}

type Lines = AsyncGenerator<RankLine, never>;

/** Waits until all ranks have made some steps together. Returns what they said of the last one. */
async function pastSteps(lines: Lines): Promise<readonly RankLine[]> {
  const byStep = new Map<number, RankLine[]>();
  for (let whole = 0; ;) {
    const { value: line } = await lines.next();
    if (line.kind !== 'step' || line.worldSize !== RANKS) continue;
    const said = [...(byStep.get(line.step) ?? []), line];
    byStep.set(line.step, said);
    if (said.length === RANKS) whole += 1;
    if (whole === STEPS_BETWEEN) return said;
  }
}

/** Kills a rank, and waits until another one trains in its place. */
async function costOf(lines: Lines, victim: RankLine): Promise<Cost> {
  const killedMs = performance.timeOrigin + performance.now();
  process.kill(victim.pid, 'SIGKILL');
  const latest = new Map<number, number>();
  const others = RANKS - 1;
  const stepped = new Set<number>();
  let [joinedMs, stepMs, repeatedSteps] = [Number.NaN, Number.NaN, 0];
  for (;;) {
    const { value: line } = await lines.next();
    const { kind, step, pid, worldSize, atMs } = line;
    if (kind === 'step') latest.set(pid, Math.max(latest.get(pid) ?? 0, step));
    if (worldSize === others && kind === 'begins') {
      if (Number.isNaN(joinedMs)) joinedMs = atMs - killedMs;
      repeatedSteps = Math.max(repeatedSteps, (latest.get(pid) ?? step) - step);
    }
    if (worldSize === others && kind === 'step') {
      stepped.add(pid);
      if (stepped.size === others && Number.isNaN(stepMs)) stepMs = atMs - killedMs;
    }
    if (!Number.isNaN(stepMs) && worldSize === RANKS && kind === 'step') {
      return { joinedMs, stepMs, backMs: atMs - killedMs, repeatedSteps };
    }
  }
}

function resultOf(costs: readonly Cost[]): BenchResult {
  const of = (key: keyof Cost): readonly number[] => costs.map((cost) => round(cost[key], 1));
  const text = (key: keyof Cost): string => {
    const values = of(key);
    return `${median(values).toFixed(0)} ms (${Math.min(...values).toFixed(0)} to ${Math.max(...values).toFixed(0)})`;
  };
  return {
    rows: [
      ['ranks killed', `${costs.length} of ${RANKS} ranks, one at a time`],
      ['until the others have joined each other', text('joinedMs')],
      ['until they have made the next update', text('stepMs')],
      ['until another rank trains in the place', text('backMs')],
      ['updates made again, at most', String(Math.max(...of('repeatedSteps')))],
      ['processes started from', startedFrom],
    ],
    record: {
      ranks: RANKS,
      kills: costs.length,
      startedFrom,
      medianJoinedMs: median(of('joinedMs')),
      medianStepMs: median(of('stepMs')),
      medianBackMs: median(of('backMs')),
      joinedMs: of('joinedMs'),
      stepMs: of('stepMs'),
      backMs: of('backMs'),
      repeatedSteps: of('repeatedSteps'),
    },
  };
}
