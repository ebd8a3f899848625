import { arange, dist, init, manualSeed, nn, randn, type Tensor } from 'shardwise';

/** A layer of attention that knows nothing of ranks. */
class Layer extends nn.Module {
  readonly positions = new nn.Embedding(64, 16);
  readonly heads = new nn.Linear(16, 48);

  forward(x: Tensor): Tensor {
    const [rows = 0, length = 0] = x.shape;
    const placed = x.add(this.positions.forward(arange(length)));
    const heads = this.heads.forward(placed).reshape([rows, length, 12, 4]).transpose(1, 2);
    const [q, k, v] = heads.split(4, 1);
    if (q === undefined || k === undefined || v === undefined) return x;
    const seen = nn.functional.scaledDotProductAttention(q, k, v, { causal: true });
    return seen.transpose(1, 2).flatten(2).add(x);
  }
}

const context = await init();
manualSeed(1);
const x = randn([2, 32, 16]);
const whole = new Layer();
const expected = whole.forward(x);
await expected.realize();

// Each rank gets a part of the 32 tokens. Keys and values travel around a ring.
const divided = await dist.parallelize(
  whole,
  dist.compose(dist.contextParallel({ axis: 'dp', arange: 'places' }), dist.ddp()),
);
const found = divided.forward(x);
const cut = new dist.SequenceCut(32, {
  ranks: context.worldSize,
  neighbours: 1,
  order: 'headTail',
});
console.log(`rank ${context.rank} has the tokens ${cut.placesOf(context.rank).join(' ')}`);
const far = await found.sub(expected).abs().max().item();
if (context.rank === 0) console.log('equal:', far < 1e-5); // prints equal: true
await context.close();
