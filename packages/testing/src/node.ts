// Functions that start ranks or run code as ranks, which need Node.
export { findMpis } from './ranks/mpi-launcher.ts';
export type { MpiLauncher, MpiName, MpiSearch } from './ranks/mpi-launcher.ts';
export { onRanks, type OnRanksOptions, type RankInThread } from './ranks/on-ranks.ts';
export { settleRanks, spawnRanks } from './ranks/spawn-ranks.ts';
export type { SpawnRanksOptions } from './ranks/spawn-ranks.ts';
export {
  openPage,
  type OpenPageOptions,
  reasonWithoutBrowser,
  requireBrowser,
} from './hosts/browser.ts';
export { reasonWithoutDevice } from './hosts/reason-without-device.ts';
