// What a page needs to train. The page starts ranks, and the workers of the ranks call `init`.
export * from '../groups/tensors.ts';
export * as dist from '../groups/dist.ts';
export * as checkpoints from './checkpoints.ts';
export * as profiler from '../groups/profiler.ts';
// What the page itself uses.
export { startRanks, type PageRun, type StartRanksOptions } from './start-ranks.ts';
export { chooseDevice, type PageDevice } from './choose-device.ts';
export type { PageReport } from './page-report.ts';
export type { ErrorText, RankEnd } from './page-message.ts';
export { blame } from './blame.ts';
// What a rank uses.
export { init } from './init.ts';
export type { PageRankContext } from './page-rank-context.ts';
export type { StepMetrics } from '../rank/step-metrics.ts';
export type { StepReport } from '../run-state/run-message.ts';
export * from '../groups/moved/everywhere.ts';
export * from '../groups/moved/page-checkpoints.ts';
