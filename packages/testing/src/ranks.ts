// What runs on the threads and processes of ranks: imports no test runner.
export { runProcessGroupScenario } from './contracts/process-group/scenario.ts';
export type { ProcessGroupScenario } from './contracts/process-group/scenario.ts';
export type {
  ConformanceCase,
  ConformanceCases,
} from './contracts/process-group/conformance-case.ts';
export { typed, valuesOf, zeros } from './contracts/process-group/typed-values.ts';
export { findMpis } from './ranks/mpi-launcher.ts';
export type { MpiLauncher, MpiName, MpiSearch } from './ranks/mpi-launcher.ts';
export { RankFailure, reportOf } from './ranks/rank-failure.ts';
export type { ErrorReport, RankOutcome } from './ranks/rank-failure.ts';
export type { RankContext, RankMessage, RankTask } from './ranks/rank-task.ts';
export { settleRanks, spawnRanks } from './ranks/spawn-ranks.ts';
export type { SpawnRanksOptions } from './ranks/spawn-ranks.ts';
export { contractModels } from './contracts/strategy/models.ts';
export {
  type PlayedTraining,
  runStrategyScenario,
  type StrategyRank,
  type StrategyScenario,
} from './contracts/strategy/scenario.ts';
export type {
  ExpectedTraining,
  StrategyBatch,
  StrategyCase,
  StrategyCases,
  StrategyModel,
} from './contracts/strategy/strategy-case.ts';
