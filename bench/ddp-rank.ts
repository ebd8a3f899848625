import { dist } from 'shardwise';
import { joinBenchWorld, serveRounds } from './serve-rounds.ts';
import { buildModel, trainAlone, Training } from './training.ts';

// This thread is one rank of the ddp benchmark. It trains when it is told to, with or without the other ranks.

const { rank, group, precision } = await joinBenchWorld();
const parallel = await dist.parallelize(buildModel(), dist.ddp());
serveRounds(group, {
  together: new Training(parallel, parallel.module.parameters(), { rank, precision }),
  alone: trainAlone(rank, precision),
});
