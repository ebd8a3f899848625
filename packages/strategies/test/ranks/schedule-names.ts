import type { ScheduleName } from '@shardwise/strategies';

/** Schedules with one stage on each rank. */
export const onePerRank: readonly ScheduleName[] = ['naive', 'gpipe', '1f1b', 'zb1p', 'zb2p'];
/** Schedules with two stages on each rank. */
export const twoPerRank: readonly ScheduleName[] = [
  'interleaved1f1b',
  'loopedBfs',
  'zb1p',
  'zbv',
  'vHalf',
  'vMin',
  'dualPipeV',
];
