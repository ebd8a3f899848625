// The entry point for authors of backends, process groups, transports, strategies and samplers: interfaces, types, ops
// and errors, and nothing else.
export * from './dtype.ts';
export * from './gguf-blocks.ts';
export * from './op.ts';
export * from './backend.ts';
export * from './process-group.ts';
export * from './requests.ts';
export * from './store.ts';
export * from './transport.ts';
export * from './transport-errors.ts';
export * from './layout.ts';
export * from './mesh.ts';
export * from './strategy.ts';
export * from './sampler.ts';
export * from './errors.ts';
