import { ConfigError } from '@shardwise/core/extend';
import type { Schedule } from './actions/schedule.ts';
import { dualPipeV } from './schedules/dual-pipe-v.ts';
import { forwardOnly } from './schedules/forward-only.ts';
import { gpipe, loopedBfs, naive } from './schedules/gpipe.ts';
import {
  interleaved1f1b,
  oneForwardOneBackward,
  zb1p,
  zb2p,
} from './schedules/one-forward-one-backward.ts';
import { type FullShape, fullShape, type ScheduleShape } from './schedules/schedule-shape.ts';
import { vHalf, vMin } from './schedules/v-half-and-v-min.ts';
import { zbv } from './schedules/zbv.ts';

/** The names of schedules. docs/pipeline-schedules.md says what each is for. */
export type ScheduleName =
  | 'naive'
  | 'gpipe'
  | '1f1b'
  | 'interleaved1f1b'
  | 'loopedBfs'
  | 'zb1p'
  | 'zb2p'
  | 'zbv'
  | 'vHalf'
  | 'vMin'
  | 'dualPipeV'
  | 'forwardOnly';

interface ScheduleMaker {
  readonly make: (shape: FullShape) => Schedule;
  /** The default number of stages per rank. */
  readonly stagesPerRank: 1 | 2;
}

const makers: Readonly<Record<ScheduleName, ScheduleMaker>> = {
  naive: { make: naive, stagesPerRank: 1 },
  gpipe: { make: gpipe, stagesPerRank: 1 },
  '1f1b': { make: oneForwardOneBackward, stagesPerRank: 1 },
  interleaved1f1b: { make: interleaved1f1b, stagesPerRank: 2 },
  loopedBfs: { make: loopedBfs, stagesPerRank: 2 },
  zb1p: { make: zb1p, stagesPerRank: 1 },
  zb2p: { make: zb2p, stagesPerRank: 1 },
  zbv: { make: zbv, stagesPerRank: 2 },
  vHalf: { make: vHalf, stagesPerRank: 2 },
  vMin: { make: vMin, stagesPerRank: 2 },
  dualPipeV: { make: dualPipeV, stagesPerRank: 2 },
  forwardOnly: { make: forwardOnly, stagesPerRank: 1 },
};

/** All names of schedules. */
export const scheduleNames: readonly ScheduleName[] = Object.keys(
  makers,
) as readonly ScheduleName[];

export function isScheduleName(name: string): name is ScheduleName {
  return Object.hasOwn(makers, name);
}

/** Returns the default number of stages per rank of a schedule. */
export function usualStagesPerRank(name: ScheduleName): number {
  return makers[name].stagesPerRank;
}

/**
 * Returns the schedule with this name: what each rank computes, in which order.
 *
 * Throws ConfigError for an unknown name, and for a shape that the schedule cannot have.
 */
export function pipelineSchedule(name: ScheduleName, shape: ScheduleShape): Schedule {
  if (!isScheduleName(name)) throw unknownName(name);
  const { make, stagesPerRank } = makers[name];
  return make(fullShape(name, shape, stagesPerRank));
}

function unknownName(name: string): ConfigError {
  return new ConfigError(
    {
      asked: `the schedule ${name}`,
      found: 'no schedule of this name',
      todo: `The schedules are ${scheduleNames.join(', ')}`,
    },
    { schedule: name },
  );
}
