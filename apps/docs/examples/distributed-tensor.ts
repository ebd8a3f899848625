import { autograd, dist, init, manualSeed, nn, randn, type Tensor } from 'shardwise';

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
const ofParts = autograd.grad(divided, [up, down]);

// The same program with the whole tensors on each rank.
const together = loss(x, up, down, target);
const ofWhole = autograd.grad(together, [up, down]);

const far = ofParts.map((gradient, at) =>
  gradient
    .sub(ofWhole[at] ?? NaN)
    .abs()
    .max()
    .item(),
);
const differences = [(await divided.item()) - (await together.item()), ...(await Promise.all(far))];
const equal = differences.every((difference) => Math.abs(difference) < 1e-4);
if (context.rank === 0) console.log('equal:', equal); // prints equal: true
await context.close();
