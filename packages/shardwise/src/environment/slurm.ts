import type { RankLaunch } from './launch.ts';
import { checkRankNumbers, type RankNames } from './rank-numbers.ts';
import { expandNodeList } from './slurm-node-list.ts';
import {
  conflictError,
  hostOf,
  integerOf,
  MAX_RESTARTS,
  MAX_WORLD_SIZE,
  missingError,
  neededIntegerOf,
  portOf,
  textOf,
  valueError,
} from './variables.ts';

const slurmNames: RankNames = {
  rank: 'SLURM_PROCID',
  worldSize: 'SLURM_STEP_NUM_TASKS',
  localRank: 'SLURM_LOCALID',
  localWorldSize: 'SLURM_STEP_TASKS_PER_NODE',
};

/** Slurm uses ids from here on for steps that run a batch script, an interactive shell, and the like. */
const FIRST_SPECIAL_STEP = 0xff_ff_ff_00;
const MAX_ID = 2 ** 32 - 1;
/** A factor large enough that the steps of one job rarely get the port of a following job. */
const STEP_STRIDE = 1009;

/**
 * Whether this process is a task of srun. A batch script and an interactive shell also have SLURM_PROCID=0 and the
 * job's SLURM_NTASKS, but they are not tasks.
 */
export function isSlurmStep(env: NodeJS.ProcessEnv): boolean {
  const step = integerOf(env, 'SLURM_STEP_ID', { min: 0, max: MAX_ID });
  return step !== undefined && step < FIRST_SPECIAL_STEP;
}

/** Detects a task of srun. */
export function slurmLaunch(env: NodeJS.ProcessEnv): RankLaunch | undefined {
  if (!isSlurmStep(env)) return undefined;
  const because = 'SLURM_STEP_ID';
  const read = (name: string, min: number): number =>
    neededIntegerOf(env, name, { min, max: MAX_WORLD_SIZE, because });
  const nodeRank = read('SLURM_NODEID', 0);
  const numbers = {
    rank: read(slurmNames.rank, 0),
    worldSize: read(slurmNames.worldSize, 1),
    localRank: read(slurmNames.localRank, 0),
    localWorldSize: tasksOf(env, nodeRank),
  };
  checkRankNumbers(numbers, slurmNames);
  const id = (name: string): number => neededIntegerOf(env, name, { min: 0, max: MAX_ID, because });
  const job = id('SLURM_JOB_ID');
  const step = id('SLURM_STEP_ID');
  return {
    kind: 'rank',
    launcher: 'slurm',
    ...numbers,
    nodeRank,
    address: hostOf(env, 'MASTER_ADDR') ?? firstHost(env),
    port: portOf(env, 'MASTER_PORT') ?? derivedPort(job + step * STEP_STRIDE),
    jobId: `${job}.${step}`,
    restartCount: integerOf(env, 'SLURM_RESTART_COUNT', { min: 0, max: MAX_RESTARTS }),
    maxRestarts: undefined,
  };
}

function tasksOf(env: NodeJS.ProcessEnv, nodeRank: number): number {
  const name = slurmNames.localWorldSize;
  const text = textOf(env, name);
  if (text === undefined) throw missingError('SLURM_STEP_ID', [name]);
  const tasks = expandTasksPerNode(text);
  const own = tasks[nodeRank];
  if (own !== undefined) return own;
  throw conflictError(
    { name: 'SLURM_NODEID', value: nodeRank },
    { name: 'SLURM_STEP_NUM_NODES', value: tasks.length },
    `${name} is of ${tasks.length} nodes, which count from 0`,
  );
}

/** Returns the first host of the step, which is where rank 0 is. */
function firstHost(env: NodeJS.ProcessEnv): string | undefined {
  const text = textOf(env, 'SLURM_STEP_NODELIST');
  return text === undefined ? undefined : expandNodeList(text, 'SLURM_STEP_NODELIST')[0];
}

/** The ports lie below those that Linux gives to clients (32768 and up), and above those of most services. */
const PORT_BASE = 20_000;
const PORT_RANGE = 10_000;

/**
 * Returns the port on which the ranks of a job find each other if the launcher names none: `base + id % range`. All
 * ranks of a job compute the same port, and two jobs on one host rarely have the same one.
 */
function derivedPort(id: number): number {
  return PORT_BASE + (id % PORT_RANGE);
}

const NAME = 'SLURM_STEP_TASKS_PER_NODE';
const MAX_CHARACTERS = 1 << 16;

/**
 * Returns the number of tasks of each node: `4(x2),3` is 4, 4 and 3. Throws ConfigError if the text is not such a list.
 */
export function expandTasksPerNode(text: string): readonly number[] {
  const error = (): Error => valueError(NAME, text, 'a list such as 4(x2),3');
  if (text.length > MAX_CHARACTERS) throw error();
  const tasks: number[] = [];
  for (const part of text.split(',')) {
    const match = /^(?<count>\d{1,7})(?:\(x(?<nodes>\d{1,7})\))?$/.exec(part);
    const count = Number(match?.groups?.['count'] ?? 0);
    const nodes = Number(match?.groups?.['nodes'] ?? 1);
    const fits = tasks.length + nodes <= MAX_WORLD_SIZE;
    if (count === 0 || nodes === 0 || count > MAX_WORLD_SIZE || !fits) throw error();
    for (let node = 0; node < nodes; node++) tasks.push(count);
  }
  return tasks;
}
