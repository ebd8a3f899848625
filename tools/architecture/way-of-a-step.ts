/** A room that a training step passes, in the order of time. */
export interface Station {
  readonly package: string;
  readonly room: string;
  /** What happens there, in a few words. */
  readonly what: string;
}

/** The way of a training step with `ddp` on the CPU. ARCHITECTURE.md tells it with the names of the files. */
export const wayOfAStep: readonly Station[] = [
  { package: 'core', room: 'data', what: 'a batch' },
  { package: 'core', room: 'nn', what: 'forward: modules call methods of tensors' },
  { package: 'core', room: 'tensor', what: 'each call makes a node and returns' },
  { package: 'core', room: 'graph', what: 'shapes and layouts are checked; nothing is computed' },
  { package: 'core', room: 'autograd', what: 'backward adds the nodes of the gradients' },
  {
    package: 'strategies',
    room: 'distributed-data-parallel',
    what: 'buckets of gradients, and the nodes that average them',
  },
  { package: 'core', room: 'optim', what: 'step() adds the update and has everything computed' },
  { package: 'core', room: 'realize', what: 'finds or makes the execution plan, and runs it' },
  { package: 'backend-cpu', room: 'run', what: 'runs what it has compiled of a segment' },
  { package: 'collectives', room: 'call', what: 'calls are numbered, compared and started' },
  { package: 'collectives', room: 'shared-memory', what: 'the ranks add their buckets' },
  { package: 'shardwise', room: 'rank', what: 'metrics go to the launcher' },
];
