import { fromData, manualSeed, nn, optim, type Strategy, type Tensor } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { stateOf } from '../../../test/support/model-values.ts';
import { expectAsOneRank, oncePerKey, type Trained } from './as-one-rank.ts';

const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};

const [items, length, width, steps] = [6, 5, 8, 3];

/** A model of modules of every kind, for sequences. Shape: x [B, 5, 8] -> [B, 5, 8]. */
class Model extends nn.Module {
  readonly lstm = new nn.LSTM(width, width, { batchFirst: true, bidirectional: true });
  readonly gru = new nn.GRU(2 * width, width, { batchFirst: true, numLayers: 2 });
  readonly encoder = new nn.TransformerEncoderLayer(width, 2, {
    dimFeedforward: 12,
    dropout: 0,
    normFirst: true,
  });
  readonly decoder = new nn.TransformerDecoderLayer(width, 2, { dimFeedforward: 12, dropout: 0 });
  readonly convolutions = new nn.ModuleDict({
    along: new nn.Conv1d(width, width, 3, { padding: 1, groups: 2 }),
    back: new nn.ConvTranspose2d(1, 1, [1, 3], { padding: [0, 1] }),
  });
  readonly norm = new nn.GroupNorm(2, width);
  readonly scales = new nn.ParameterList(
    [0, 1].map(
      (seed) =>
        new nn.Parameter(
          Float32Array.from({ length: width }, () => 1 + seed),
          [8],
        ),
    ),
  );

  forward(x: Tensor): Tensor {
    const [both] = this.lstm.forward(x);
    const [once, last] = this.gru.forward(both);
    const encoded = this.encoder.forward(once.add(last.select(0, 1).unsqueeze(1)), {
      causal: true,
    });
    const decoded = this.decoder.forward(x, encoded);
    const { along, back } = Object.fromEntries(this.convolutions);
    if (!(along instanceof nn.Conv1d && back instanceof nn.ConvTranspose2d)) throw new RangeError();
    const signal = this.norm.forward(along.forward(decoded.transpose(1, 2)));
    const image = back.forward(signal.unsqueeze(1)).squeeze(1).transpose(1, 2);
    return [...this.scales].reduce((y, scale) => y.mul(scale), image);
  }
}

/** Trains as one of the ranks that share each batch, or without a strategy. */
async function train(
  { rank, size }: Pick<RankInThread, 'rank' | 'size'>,
  strategy: (() => Strategy) | null,
): Promise<Trained> {
  manualSeed(2);
  const model = new Model();
  const trained = strategy === null ? model : await parallelize(model, strategy());
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.05, momentum: 0.9 });
  const share = items / size;
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    const count = share * length * width;
    const values = Float32Array.from({ length: count }, (_, i) =>
      Math.sin((rank * count + i) * 1.3 + step),
    );
    const x = fromData(values, [share, length, width], 'f32');
    model.zeroGrad();
    const loss = nn.functional.smoothL1Loss(trained.forward(x), x.mul(0.5));
    loss.backward();
    optim.clipGradValue(model.parameters(), 0.5);
    await optimizer.step();
    losses.push(await loss.item());
  }
  return { losses, state: await stateOf(model) };
}

const alone = oncePerKey(() => train({ rank: 0, size: 1 }, null));

it.each(Object.entries(strategies))(
  'recurrent, Transformer and convolution layers, norms and containers train under %s as on one rank',
  async (_, strategy) => {
    const expected = await alone(null);
    expect(expected.losses).toHaveLength(steps);
    const ranks = await onRanks(2, (place) => train(place, strategy));
    expectAsOneRank(ranks, expected, { rtol: 1e-3, atol: 1e-5 });
  },
);
