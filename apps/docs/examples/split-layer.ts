import { init, manualSeed, randn, type Tensor } from 'shardwise';

const context = await init();
manualSeed(1);
const x = randn([4, 8]);
const up = randn([8, 6]);
const down = randn([6, 8]);

// This is what one rank computes.
const whole = x.matmul(up).relu().matmul(down);

// Of two ranks, each has half of the columns of `up` and the same half of the rows of `down`.
const [upA, upB] = up.chunk(2, 1) as [Tensor, Tensor];
const [downA, downB] = down.chunk(2, 0) as [Tensor, Tensor];
const onRankA = x.matmul(upA).relu().matmul(downA);
const onRankB = x.matmul(upB).relu().matmul(downB);

// Nothing is sent before the end, where an all-reduce adds the two.
const difference = onRankA.add(onRankB).sub(whole).abs().max();
console.log('equal:', (await difference.item()) < 1e-5); // prints equal: true
await context.close();
