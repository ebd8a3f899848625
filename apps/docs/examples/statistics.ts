import { cpu } from '@shardwise/backend-cpu';
import { ones, setRank, statistics } from '@shardwise/core';

setRank({ device: await cpu() });
for (let step = 0; step < 5; step += 1)
  await ones([64, 64])
    .matmul(ones([64, 64]))
    .sum()
    .item();
const { plansMade, plansRun } = statistics();
console.log(`${plansMade} plan made, ${plansRun} run`); // prints 1 plan made, 5 run
