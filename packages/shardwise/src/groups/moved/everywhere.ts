// The names that both entry points had before they had groups, and names that PyTorch has elsewhere. Such a name is an
// error that says the right one, until 1.0.
export * from './checkpoints.ts';
export * from './dist.ts';
export * from './layout.ts';
export * from './plans.ts';
export * from './profiler.ts';
export * from './schedules.ts';
export * from './servers.ts';
export * from './styles.ts';
export * from './torch.ts';
export * from './transports.ts';
