// A rank that has a part of a sequence, and attends to the parts of the others. It tells the page what it received.
import {
  concat,
  dist,
  fromData,
  Generator,
  init,
  manualSeed,
  nn,
  setRank,
  type Tensor,
} from 'shardwise/browser';
import type { LiveJob } from '../live-job.ts';
import { recordedGroup } from './recorded-group.ts';
import {
  HEAD_WIDTH,
  HEADS,
  NEIGHBOURS,
  type ReceivedMessage,
  type RingRecord,
  type RingTask,
} from './ring-task.ts';

/** By this, the number of a token is divided, so that it is a small value that f32 holds exactly. */
const SCALE = 1024;
const WIDTH = HEADS * HEAD_WIDTH;

const context = await init();
const { method, order, length } = (context.data as LiveJob).task as RingTask;

let pass: ReceivedMessage['pass'] = 'forward';
const messages: ReceivedMessage[] = [];
const group = recordedGroup(context.group, (operation, bytes, { bytes: own, dtype }) => {
  // Ranks also compare their batches, by integers.
  if (dtype !== 'f32') return;
  const isBlock = operation === 'recv' && pass === 'forward';
  messages.push({ operation, pass, bytes, ...(isBlock ? { tokens: tokensIn(own) } : {}) });
});
setRank({ device: context.device, mesh: new dist.LineMesh('cp', group) });

/** Attention that knows nothing of ranks. Each key and each value begins with the number of its token. */
class Attention extends nn.Module {
  readonly query = new nn.Linear(WIDTH, WIDTH);
  /** Keys and values are the inputs times these factors of 1, so that they have gradients. */
  readonly scale = new nn.Parameter(new Float32Array(WIDTH).fill(1), [WIDTH]);

  /** Shape: x [1, T, C] -> [], the sum of squares. */
  forward(x: Tensor): Tensor {
    const [q, heads] = [this.query.forward(x), x.mul(this.scale)].map((each) =>
      each.reshape([1, each.shape[1] ?? 0, HEADS, HEAD_WIDTH]).transpose(1, 2),
    );
    if (q === undefined || heads === undefined) throw new RangeError('two tensors');
    const y = nn.functional.scaledDotProductAttention(q, heads, heads, { causal: true });
    return y.square().sum();
  }
}

/** The tokens of a block, by the first number of each key or value. Padding has 0 there. */
function tokensIn(block: Uint8Array): readonly number[] {
  const values = new Float32Array(block.slice().buffer);
  const numbers = values.filter((_, index) => index % HEAD_WIDTH === 0);
  return [...new Set(numbers)].filter((value) => value > 0).map((value) => value * SCALE - 1);
}

/** Shape: -> [1, length, C]. */
function sequence(): Tensor {
  const values = new Generator(1).rand(length * WIDTH).map((value, index) => {
    const token = Math.floor(index / WIDTH);
    return index % HEAD_WIDTH === 0 ? (token + 1) / SCALE : 2 * value - 1;
  });
  return fromData(values, [1, length, WIDTH], 'f32');
}

function layer(): Attention {
  manualSeed(1);
  return new Attention();
}

/** The gradients of both weights. Shape: -> [C C + C]. */
function gradientOf({ query, scale }: Attention): Tensor {
  const [ofQuery, ofScale] = [query.weight.grad, scale.grad];
  if (ofQuery === null || ofScale === null) throw new TypeError('backward has left no gradient');
  return concat([ofQuery.flatten(), ofScale], 0);
}

const divided = layer();
const parallel = await dist.parallelize(
  divided,
  dist.compose(
    dist.contextParallel({
      method,
      order,
      lossWeight: 'sum',
      ...(method === 'usp' ? { ulyssesRanks: NEIGHBOURS } : {}),
    }),
    dist.ddp({ axis: 'cp' }),
  ),
);
const loss = parallel.forward(sequence());
await loss.realize();
pass = 'backward';
loss.backward();
await gradientOf(divided).realize();

const alone = layer();
alone.forward(sequence()).backward();
const difference = await gradientOf(alone).sub(gradientOf(divided)).abs().max().item();
context.send({ messages, difference } satisfies RingRecord);
await context.close();
