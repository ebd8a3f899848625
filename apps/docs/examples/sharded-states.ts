import { dist } from 'shardwise';

const model = {
  parameters: [
    { name: 'up.weight', shape: [1024, 256], dtype: 'f32', requiresGrad: true },
    { name: 'down.weight', shape: [256, 1024], dtype: 'f32', requiresGrad: true },
  ],
} as const;
const axes = [{ name: 'dp', size: 4 }];

for (const strategy of [dist.ddp(), dist.zero({ stage: 2 }), dist.fsdp()]) {
  console.log(dist.explain(strategy.plan(model, axes)));
  console.log();
}
// prints ddp on dp=4
// prints allReduce
// prints zero-2 on dp=4
// prints fsdp on dp=4
// prints allGather
