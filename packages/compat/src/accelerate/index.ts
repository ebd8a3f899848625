export { readConfig } from './read-config.ts';
export {
  Accelerator,
  type AcceleratorOptions,
  type Prepared,
  type ToPrepare,
} from './accelerator.ts';
export {
  AcceleratedModel,
  AcceleratedOptimizer,
  AcceleratedScheduler,
  type Scheduler,
} from './prepared.ts';
export { type LoaderOptions, PreparedLoader } from './sharded-loader.ts';
export type { TrackedProject, TrackedValues, Tracker, TrackerChoice } from './trackers.ts';
