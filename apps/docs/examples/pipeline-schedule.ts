import { dist } from 'shardwise';

for (const name of ['gpipe', '1f1b', 'zb1p'] as const) {
  const schedule = dist.schedules.pipelineSchedule(name, { ranks: 3, microbatches: 6 });
  console.log(dist.schedules.visualizeSchedule(schedule));
  console.log();
}
// prints gpipe: 3 stages on 3 ranks, 6 microbatches
// prints 1f1b: 3 stages on 3 ranks, 6 microbatches
// prints zb1p: 3 stages on 3 ranks, 6 microbatches

const { ranks } = dist.schedules.simulateSchedule(
  dist.schedules.pipelineSchedule('1f1b', { ranks: 3, microbatches: 6 }),
);
console.log(ranks.map(({ peakMicrobatches }) => peakMicrobatches)); // prints [ 3, 2, 1 ]
