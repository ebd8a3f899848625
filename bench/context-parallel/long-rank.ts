import { dist, fromData, manualSeed, optim } from 'shardwise';
import { joinBenchWorld, serveRounds } from '../serve-rounds.ts';
import { LongModel } from './long-model.ts';
import { longSettings } from './long-settings.ts';

// This thread is one rank that has a part of one long sequence. A ring brings the keys of the others.

const { group, contestant } = await joinBenchWorld();
const settings = longSettings.parse(JSON.parse(contestant));
const { length, vocabulary } = settings;
manualSeed(0);
const model = new LongModel(settings);
const parallel = await dist.parallelize(
  model,
  dist.compose(dist.contextParallel({ axis: 'dp', lossWeight: 'tokens' }), dist.ddp()),
);
const optimizer = new optim.AdamW(model.parameters(), { lr: 3e-3 });
const tokens = Int32Array.from(
  { length: length + 1 },
  (_, i) => (i * 3 + Math.floor(i / 7)) % vocabulary,
);
const [ids, labels] = [0, 1].map((from) =>
  fromData(tokens.slice(from, from + length), [1, length], 'i32'),
);

serveRounds(group, {
  together: {
    async run(steps) {
      if (ids === undefined || labels === undefined) throw new RangeError('ids and labels');
      const losses: { readonly loss: number }[] = [];
      for (let step = 0; step < steps; step++) {
        optimizer.zeroGrad();
        const loss = parallel.forward(ids, labels);
        loss.backward();
        await optimizer.step();
        losses.push({ loss: await loss.item() });
      }
      return losses;
    },
  },
});
