// What runs on the threads and processes of ranks: imports no test runner.
export { runProcessGroupScenario } from './contracts/process-group/scenario.ts';
export type { ProcessGroupScenario } from './contracts/process-group/scenario.ts';
export { RankFailure } from './ranks/rank-failure.ts';
export type { ErrorReport } from './ranks/rank-failure.ts';
export type { RankContext } from './ranks/rank-task.ts';
export { settleRanks, spawnRanks } from './ranks/spawn-ranks.ts';
export type { RankOutcome, SpawnRanksOptions } from './ranks/spawn-ranks.ts';
