import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Action,
  formatAction,
  pipelineSchedule,
  type Schedule,
  type ScheduleName,
  scheduleNames,
} from '@shardwise/strategies';

interface GoldenLowering {
  readonly messages: string;
  readonly late: string;
  readonly all: string;
  /** Null if PyTorch's dry run does not support the schedule's pairs of actions. */
  readonly steps: number | null;
  /** The slots of each rank's activations, in the order of its forwards. */
  readonly slots: string;
}

/** The schedules that tools/golden-pipeline-schedules.py records. Keys are 'name ranks stagesPerRank microbatches'. */
interface GoldenSchedules {
  readonly tables: Readonly<Record<string, readonly string[]>>;
  readonly orders: Readonly<Record<string, string | null>>;
  readonly lowered: Readonly<Record<string, GoldenLowering>>;
}

export const golden: GoldenSchedules = JSON.parse(
  readFileSync(join(import.meta.dirname, '../golden/pipeline-schedules.json'), 'utf8'),
) as GoldenSchedules;

/** Returns the schedule that a key of the golden file describes. */
export function scheduleOfKey(key: string): Schedule {
  const [text, ...numbers] = key.split(' ');
  const [ranks = 0, stagesPerRank = 0, microbatches = 0] = numbers.map(Number);
  const name = scheduleNames.find((each): each is ScheduleName => each === text);
  if (name === undefined) throw new Error(`no schedule ${text}`);
  return pipelineSchedule(name, { ranks, stagesPerRank, microbatches });
}

/** Returns one line for each rank, in PyTorch's grammar. */
export function linesOf({
  actions,
}: {
  readonly actions: readonly (readonly Action[])[];
}): string[] {
  return actions.map((own) => own.map(formatAction).join(' '));
}

export function digest(lines: readonly string[]): string {
  return createHash('sha256').update(lines.join('\n')).digest('hex').slice(0, 16);
}
