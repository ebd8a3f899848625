// The entry point of programs that Node runs. What concerns several ranks is in the group `dist`, what saves and loads is
// in `checkpoints`, and what says where time and memory went is in `profiler`.
export * from './groups/tensors.ts';
export * as dist from './groups/dist.ts';
export * as checkpoints from './groups/checkpoints.ts';
export * as profiler from './groups/profiler.ts';
// The CPU as a device.
export { cpu, type CpuBackend, type CpuOptions, hasFastBf16 } from '@shardwise/backend-cpu';
// A rank of a run.
export { init } from './rank/init.ts';
export type { InitOptions, SurviveOptions } from './rank/init-options.ts';
export { survive } from './rank/members/survive.ts';
export type { SurvivorContext, Training } from './rank/members/survivor.ts';
export type { UtilizationOptions } from './rank/utilization.ts';
export type { PaperModel, Peak, PeakDevice, Throughput } from './rank/peaks.ts';
export type { RankContext } from './rank/rank-context.ts';
export type { MetricSink, StepFigures } from './sinks/metric-sink.ts';
export { SummaryWriter, type SummaryWriterOptions } from './sinks/summary-writer.ts';
export type { StepMetrics } from './rank/step-metrics.ts';
export type { Fact } from './run-state/run-message.ts';
export * from './groups/moved/everywhere.ts';
export * from './groups/moved/node-checkpoints.ts';
