import { dist, profiler } from 'shardwise';

// Three ranks share one thread. Rank 1 comes late to each call.
const transports = dist.transports.createLoopbackTransports(3);
const groups = transports.map((transport) => dist.createGroup(transport));
const loggers = groups.map((group) => profiler.commsLogger(group));

await Promise.all(
  groups.map(async (group) => {
    const gradients = { bytes: new Uint8Array(4 * 1024), dtype: 'f32' } as const;
    for (let step = 0; step < 3; step += 1) {
      if (group.rank === 1) await new Promise((resolve) => setTimeout(resolve, 40));
      await group.allReduce(gradients, 'avg');
    }
  }),
);
await Promise.all(loggers.map((logger) => logger.logSummary({ showStraggler: true })));
// prints Communication of rank 0 of 3: 3 calls, 12 KB.
// prints Rank 1 was waited for
