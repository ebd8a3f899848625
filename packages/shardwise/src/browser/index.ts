// What a page needs to train: the page starts ranks, whose workers call `init`.

// Tensors, modules, optimizers, data; the interfaces of backends, transports and strategies.
export * from '@shardwise/core';
// Ways to train a model on many ranks.
export * from '@shardwise/strategies';
// The page's side.
export { startRanks, type PageRun, type StartRanksOptions } from './start-ranks.ts';
export type { PageDevice } from './choose-device.ts';
export type { PageReport } from './page-report.ts';
export type { ErrorText, RankEnd } from './page-message.ts';
export { blame } from './blame.ts';
// A rank's side.
export { init } from './init.ts';
export type { PageRankContext } from './page-rank-context.ts';
export type { StepMetrics } from '../rank/step-metrics.ts';
export type { StepReport } from '../run-state/message.ts';
// What ranks called, for `blame`.
export { type FlightDump, FlightRecorder, recordCalls } from '@shardwise/collectives';
