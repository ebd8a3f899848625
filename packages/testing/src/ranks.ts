// What runs on the threads and processes of ranks. It imports few files, so that ranks start quickly, and none that
// needs Node.
export { runProcessGroupScenario } from './contracts/process-group/scenario.ts';
export type { ProcessGroupScenario } from './contracts/process-group/scenario.ts';
export type {
  ConformanceCase,
  ConformanceCases,
} from './contracts/process-group/conformance-case.ts';
export { typed, valuesOf, zeros } from './contracts/process-group/typed-values.ts';
export { RankFailure, reportOf } from './ranks/rank-failure.ts';
export type { ErrorReport, RankOutcome } from './ranks/rank-failure.ts';
export type { RankContext, RankMessage, RankTask } from './ranks/rank-task.ts';
