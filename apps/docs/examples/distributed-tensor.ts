import { dist, init, manualSeed, nn, randn, type Tensor } from 'shardwise';

const { distributeTensor, layoutOf } = dist.layout;
const context = await init();
manualSeed(1);
const [x, target] = [randn([8, 4]), randn([8, 4])];
const up = randn([4, 16]).requiresGrad_();
const down = randn([16, 4]).requiresGrad_();
const loss = (x: Tensor, up: Tensor, down: Tensor, target: Tensor) =>
  nn.functional.mseLoss(x.matmul(up).gelu().matmul(down), target);

// Each rank has some columns of `up` and the same rows of `down`. All ranks have x and the target.
const whole = layoutOf([null, null]);
const parts = [
  distributeTensor(x, whole),
  distributeTensor(up, layoutOf([null, 'dp'])),
  distributeTensor(down, layoutOf(['dp', null])),
  distributeTensor(target, whole),
] as const;
const divided = loss(...parts);
divided.backward();
const [ofUp, ofDown] = [up.grad, down.grad];
if (ofUp === null || ofDown === null) throw new TypeError('no gradients');

// The same program with the whole tensors on each rank.
up.zeroGrad();
down.zeroGrad();
const together = loss(x, up, down, target);
together.backward();

const far = async (a: Tensor | null, b: Tensor) => (await a?.sub(b).abs().max().item()) ?? NaN;
const equal = [
  Math.abs((await divided.item()) - (await together.item())) < 1e-4,
  (await far(up.grad, ofUp)) < 1e-4,
  (await far(down.grad, ofDown)) < 1e-4,
];
if (context.rank === 0) console.log('equal:', equal.every(Boolean)); // prints equal: true
await context.close();
