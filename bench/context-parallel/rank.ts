import { GPT2LMHeadModel } from '@shardwise/models';
import { dist, fromData, manualSeed, optim } from 'shardwise';
import { joinBenchWorld, serveRounds } from '../serve-rounds.ts';
import { contextSettings } from './settings.ts';

// This thread is one rank of a contestant of the context-parallel benchmark.

const { rank, group, contestant: text } = await joinBenchWorld();
const { contestant, length, layers, width, heads, vocabulary } = contextSettings.parse(
  JSON.parse(text),
);
manualSeed(0);
const model = new GPT2LMHeadModel({
  vocabSize: vocabulary,
  nPositions: length,
  nEmbd: width,
  nHead: heads,
  nLayer: layers,
  residPdrop: 0,
  embdPdrop: 0,
  attnPdrop: 0,
});
const shared = dist.ddp();
const parallel = await dist.parallelize(
  model,
  contestant === 'ddp'
    ? shared
    : dist.compose(dist.contextParallel({ axis: 'dp', method: contestant }), shared),
);
const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
const first = contestant === 'ddp' ? rank : 0;
const ids = fromData(
  Int32Array.from({ length }, (_, i) => (i * (3 + first) + Math.floor(i / 7)) % vocabulary),
  [1, length],
  'i32',
);

serveRounds(group, {
  together: {
    async run(steps) {
      const losses: { readonly loss: number }[] = [];
      for (let step = 0; step < steps; step++) {
        optimizer.zeroGrad();
        const loss = parallel.forward(ids, { labels: ids });
        loss.backward();
        await optimizer.step();
        losses.push({ loss: await loss.item() });
      }
      return losses;
    },
  },
});
