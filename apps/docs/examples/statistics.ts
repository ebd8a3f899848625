import { init, ones, profiler } from 'shardwise';

const context = await init();
for (let step = 0; step < 5; step += 1)
  await ones([64, 64])
    .matmul(ones([64, 64]))
    .sum()
    .item();
const { plansMade, plansRun } = profiler.statistics();
console.log(`${plansMade} plan made, ${plansRun} run`); // prints 1 plan made, 5 run
await context.close();
