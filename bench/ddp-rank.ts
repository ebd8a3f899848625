import { ddp, parallelize } from 'shardwise';
import { joinBenchWorld, serveRounds } from './serve-rounds.ts';
import { buildModel, trainAlone, Training } from './training.ts';

// One rank of the ddp benchmark: a thread that trains when told to, with or without the others.

const { rank, group, precision } = await joinBenchWorld();
const parallel = await parallelize(buildModel(), ddp());
serveRounds(group, {
  together: new Training(parallel, parallel.module.parameters(), { rank, precision }),
  alone: trainAlone(rank, precision),
});
