import { dist } from 'shardwise';

// One layer of 4096 x 4096 in f32, trained by Adam on eight ranks.
const parameters = [
  { name: 'weight', shape: [4096, 4096], dtype: 'f32', requiresGrad: true },
] as const;
const axes = [{ name: 'dp', size: 8 }];

for (const strategy of [
  dist.ddp(),
  dist.zero({ stage: 1 }),
  dist.zero({ stage: 2 }),
  dist.fsdp(),
]) {
  const { statesBytes } = dist.planMemory(strategy.plan({ parameters }, axes));
  console.log(strategy.name, statesBytes / 2 ** 20, 'MiB');
}
// prints ddp 256 MiB
// prints zero-1 144 MiB
// prints zero-2 88 MiB
// prints fsdp 32 MiB
