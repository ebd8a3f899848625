import { testDistributedOps } from './distributed-ops-table.ts';

/** SHARDWISE_SAMPLES=54 makes 20,000 cases. */
const samples = Number(process.env['SHARDWISE_SAMPLES'] ?? 4);

for (const size of [1, 3, 4, 6, 8]) testDistributedOps(size, samples);
